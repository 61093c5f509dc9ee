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
from argosy.evaluation.named_files import NoFileError
from argosy.evaluation.suite import Suite
from probes.kinds import registered
from probes.probe import Probe, Scope


def run_probes(
    suite: Suite, model: LanguageModel, data: str, *, chat: bool, seed: int, limit: int | None
) -> Findings:
    """Metrics `probe/<suite>/<name>/<measure>` and a row a case.

    Raises:
        InputError: a probe of an unknown kind, with a wrong field, or without its data; a name used twice.
    """
    probes = [parse_probe(entry, suite.name) for entry in suite.probes or []]
    names = [probe.name for probe in probes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise InputError(f"suite {suite.name}: two probes are called {twice!r}")
    scope = Scope(Path(data) if data else None, chat, seed, limit)
    findings = Findings()
    for probe in probes:
        where = f"probe/{suite.name}/{probe.name}"
        try:
            measured = probe.measure(model, scope)
        except NoFileError as error:
            if not probe.optional:
                get = f" Get it from {probe.source}." if probe.source else ""
                raise NoFileError(f"suite {suite.name}, probe {probe.name!r}: {error}.{get}") from None
            findings.leave_out(where, f"no file: {getattr(probe, 'file', '')}")
            continue
        for name, estimate in measured.measures.items():
            findings.add(f"{where}/{name}", estimate)
        for reason, n in measured.left_out.items():
            findings.leave_out(where, reason, n)
        findings.rows += [{"task": suite.name, "variant": probe.name, **row} for row in measured.rows]
    return findings


def parse_probe(entry: Mapping[str, Any], suite: str) -> Probe:
    """A probe from a suite's YAML.

    Raises:
        InputError: its kind is unknown (names the nearest), or a field is wrong.
    """
    fields = dict(entry)
    where = f"suite {suite}, probe {fields.get('name')!r}"
    kind = fields.pop("kind", None)
    if kind not in registered():
        near = difflib.get_close_matches(str(kind), registered(), n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(f"{where}: unknown kind {kind!r}{hint} (there are: {', '.join(registered())})")
    try:
        return registered()[kind].model_validate(fields)
    except ValidationError as error:
        raise InputError(f"{where}: {config_error(registered()[kind], error)}") from None
