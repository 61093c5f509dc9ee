"""Results of another harness as an evaluation of the store, so that they stand beside ours in every comparison."""

import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError
from argosy.core.statistics.metric import as_records
from argosy.core.store.files import make_directory, write_json
from argosy.core.store.provenance import digest_of
from argosy.core.store.step_files import OUTPUTS, RUN
from argosy.evidence.results.findings import Findings
from argosy.evidence.results.items import write_items
from argosy.evidence.results.suite import check_names
from evals.exchange import lighteval_files, lm_eval_files, read_file, results_files

IMPORT = "import"
MARK = f"{IMPORT}:"  # before a name of its own, in names of checkpoints
_NOT_IN_A_NAME = re.compile(r"[^\w. -]+")


def key_of(name: str) -> str:
    """Return the key of a model whose results were imported under a name of its own."""
    return f"{MARK}{name}/{name}"


def read_results(paths: Sequence[Path], form: str, names: Mapping[str, str]) -> tuple[Findings, str, str]:
    """Read files of lm-eval and lighteval; returns the findings, the model's name, and the harnesses. Raises
    InputError: a file is of none of these, or two have one metric."""
    findings, models, suites = Findings(), {}, {}
    for path in results_files(paths):
        content = read_file(path)
        reader = lighteval_files if "config_general" in content else lm_eval_files
        models[reader.read(path, content, form, names, findings)] = path
        suites[reader.NAME] = path
    if len(models) > 1:
        raise InputError(f"the files are of several models, {', '.join(sorted(models))}: import each by itself")
    if not findings.metrics:
        raise InputError(f"{', '.join(map(str, paths))}: no metric is a number")
    (model,) = models
    return findings, _NOT_IN_A_NAME.sub("_", model.rstrip("/").rpartition("/")[2]).strip(" .-_") or "model", (
        " and ".join(sorted(suites)))


def write_evaluation(store: Path, findings: Findings, suite: str, paths: Sequence[Path], *, name: str = "",
                     checkpoint: Mapping[str, Any] | None = None, digest: str = "") -> Path:
    """Write what was imported as a finished evaluation, and return its directory.

    Either `name`, of a model that is known by it alone, or `checkpoint` (its label) with the `digest` of the step that
    made it: then the numbers are that checkpoint's, beside ours."""
    check_names([name] if name else [], "--name")
    about = dict(checkpoint or {"name": name, "stage": "", "step": 0, "tokens": 0, "chat": False})
    files = [f"{path.name}:{hashlib.sha256(path.read_bytes()).hexdigest()}" for path in results_files(paths)]
    made: dict[str, Any] = {"node": IMPORT, "part": about["name"], "step": IMPORT, "version": 1,
                            "config": {"metrics": sorted(findings.metrics)},
                            "upstream": {"checkpoint": [digest or f"{MARK}{name}"]}, "external": {"files": files}}
    made["digest"] = digest_of(made)
    directory = make_directory(store / f"{IMPORT}-{_NOT_IN_A_NAME.sub('_', about['name'])}-{made['digest']}")
    if findings.rows:
        write_items(directory, findings.rows)
    outputs = {"checkpoint": about, "suite": suite, "metrics": findings.metrics, "stderr": findings.stderr,
               "counts": findings.counts, "left_out": findings.left_out, "headline": {},
               "kinds": as_records(findings.kinds)}
    write_json(directory / RUN, {"ended": time.time(), "config": {}, "exit": 0, "attempts": 1, "seconds": 0.0})
    write_json(directory / OUTPUTS, {"outputs": outputs, "made_from": made})
    return directory
