"""The probes of a suite on one checkpoint."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from argosy.core.config.explain import config_error
from argosy.core.errors import InputError
from argosy.evidence.results.findings import Findings, reason
from argosy.evidence.results.suite import NoFileError, Suite, check_names
from argosy.model.infer.model import LanguageModel
from probes.kinds import KINDS
from probes.probe import Probe, Scope


def run_probes(
    suite: Suite, model: LanguageModel, data: str, *, chat: bool, seed: int, limit: int | None
) -> Findings:
    """Measure the probes of a suite: metrics `probe/<suite>/<name>/<measure>` and a row a case. A probe without its
    data has failed, by name, and the others go on.

    Raises InputError: a probe of an unknown kind or with a wrong field; a name used twice; no probe has its data."""
    probes = parse_probes(suite)
    scope = Scope(Path(data) if data else None, chat, seed, limit)
    findings = Findings()
    first: InputError | None = None
    for probe in probes:
        where = f"probe/{suite.name}/{probe.name}"
        before = model.scorer.cut
        try:
            measurement = probe.measure(model, scope)
            for measure, estimate in measurement.measures.items():
                findings.add(f"{where}/{measure}", estimate, probe.declaration(measure))
            for why, n in measurement.left_out.items():
                findings.leave_out(where, why, n)
            findings.rows += [{"task": suite.name, "variant": probe.name, **row} for row in measurement.rows]
            if cut := model.scorer.cut - before:
                findings.cut[where] = cut
        except InputError as error:
            if isinstance(error, NoFileError) and probe.optional:
                findings.leave_out(where, f"no file: {getattr(probe, 'file', '')}")
                continue
            get = f". Get it from {probe.source}" if isinstance(error, NoFileError) and probe.source else ""
            first = first or InputError(f"suite {suite.name}, probe {probe.name!r}: {error}{get}")
            findings.fail(where, reason(error) + get, error)
    if first and len(findings.failed) == len(probes):
        raise first
    return findings


def parse_probes(suite: Suite) -> list[Probe]:
    """Parse the probes of a suite. Raises InputError: as `parse_probe`, or a name is there twice."""
    probes = [parse_probe(entry, suite.name) for entry in suite.probes or []]
    names = [probe.name for probe in probes]
    check_names([suite.name, *names], f"suite {suite.name}, probes")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise InputError(f"suite {suite.name}: two probes are called {twice!r}")
    return probes


def parse_probe(entry: Mapping[str, Any], suite: str) -> Probe:
    """Parse a probe of a suite's YAML.

    Raises InputError: its kind is unknown (names the nearest), or a field is wrong."""
    fields = dict(entry)
    where = f"suite {suite}, probe {fields.get('name')!r}"
    kind = fields.pop("kind", None)
    if kind is None:
        raise InputError(f"{where}: give its kind (there are: {', '.join(KINDS)})")
    if kind not in KINDS:
        raise InputError(f"{where}: {KINDS.unknown(str(kind))}")
    try:
        return KINDS[kind].model_validate(fields)
    except ValidationError as error:
        raise InputError(f"{where}: {config_error(KINDS[kind], error)}") from None
