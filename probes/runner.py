"""The probes of a suite on one checkpoint."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from argosy.config_explain import config_error
from argosy.errors import InputError
from argosy.evaluation.findings import Findings
from argosy.evaluation.language_model import LanguageModel
from argosy.evaluation.named_files import NoFileError, without_folders
from argosy.evaluation.suite import Suite, check_names
from probes.kinds import registered
from probes.probe import Measured, Probe, Scope


def run_probes(
    suite: Suite, model: LanguageModel, data: str, *, chat: bool, seed: int, limit: int | None
) -> Findings:
    """Metrics `probe/<suite>/<name>/<measure>` and a row a case. A probe without its data has failed, by name, and the
    others go on.

    Raises:
        InputError: a probe of an unknown kind or with a wrong field; a name used twice; no probe has its data.
    """
    probes = parse_probes(suite)
    scope = Scope(Path(data) if data else None, chat, seed, limit)
    findings = Findings()
    first: InputError | None = None
    for probe in probes:
        where = f"probe/{suite.name}/{probe.name}"
        before = model.scorer.cut
        try:
            _add(findings, where, suite.name, probe.name, probe.measure(model, scope))
            if cut := model.scorer.cut - before:
                findings.cut[where] = cut
        except InputError as error:
            if isinstance(error, NoFileError) and probe.optional:
                findings.leave_out(where, f"no file: {getattr(probe, 'file', '')}")
                continue
            get = f". Get it from {probe.source}" if isinstance(error, NoFileError) and probe.source else ""
            first = first or InputError(f"suite {suite.name}, probe {probe.name!r}: {error}{get}")
            findings.fail(where, without_folders(error) + get, error)
    if first and len(findings.failed) == len(probes):
        raise first
    return findings


def _add(findings: Findings, where: str, suite: str, name: str, measured: Measured) -> None:
    for measure, estimate in measured.measures.items():
        findings.add(f"{where}/{measure}", estimate)
    for reason, n in measured.left_out.items():
        findings.leave_out(where, reason, n)
    findings.rows += [{"task": suite, "variant": name, **row} for row in measured.rows]


def parse_probes(suite: Suite) -> list[Probe]:
    """The probes of a suite.

    Raises:
        InputError: as `parse_probe`, or a name is there twice.
    """
    probes = [parse_probe(entry, suite.name) for entry in suite.probes or []]
    names = [probe.name for probe in probes]
    check_names([suite.name, *names], f"suite {suite.name}, probes")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise InputError(f"suite {suite.name}: two probes are called {twice!r}")
    return probes


def parse_probe(entry: Mapping[str, Any], suite: str) -> Probe:
    """A probe from a suite's YAML.

    Raises:
        InputError: its kind is unknown (names the nearest), or a field is wrong.
    """
    fields = dict(entry)
    where = f"suite {suite}, probe {fields.get('name')!r}"
    kind = fields.pop("kind", None)
    if kind is None:
        raise InputError(f"{where}: give its kind (there are: {', '.join(registered())})")
    if kind not in registered():
        near = difflib.get_close_matches(str(kind), registered(), n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(f"{where}: unknown kind {kind!r}{hint} (there are: {', '.join(registered())})")
    try:
        return registered()[kind].model_validate(fields)
    except ValidationError as error:
        raise InputError(f"{where}: {config_error(registered()[kind], error)}") from None
