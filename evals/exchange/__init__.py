"""Results in the files of other harnesses: lm-eval's and lighteval's, out and in, and Inspect's logs, out."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from argosy.core.errors import InputError
from argosy.core.statistics.intervals import Estimate
from argosy.core.statistics.metric import Metric, share
from argosy.core.store.step_files import ended
from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.report.items import Asked, Key
from argosy.evidence.results.findings import Findings
from argosy.evidence.results.suite import check_names
from argosy.evidence.results.values import Record

PLAIN, OURS = "plain", "argosy"
_SHARES = re.compile(r"(acc|em|qem|pem|pqem|ex[a-z]+_match|f1|pass@|maj@|mc[12]|loglikelihood_acc|accuracy)")


class Value(NamedTuple):
    """A metric of a benchmark in one form. `stderr`: NaN where it is not known; `n`: questions, 0 where not known."""

    task: str
    form: str
    metric: str
    value: float
    stderr: float
    n: int
    kind: Metric


@dataclass(frozen=True)
class Exported:
    """A checkpoint's results to be written. `asked`: the questions, as far as they could be made again."""

    name: str
    checkpoint: Checkpoint
    asked: Mapping[Key, Asked]

    @property
    def time(self) -> datetime:
        """The end of its newest evaluation."""
        return datetime.fromtimestamp(max(map(ended, self.checkpoint.evaluations)), UTC)

    def values(self) -> Iterator[Value]:
        """Yield its metrics of benchmarks. Metrics of a language or category are of tasks of their own."""
        c = self.checkpoint
        for name in sorted(c.metrics):
            parts = name.split("/")
            if parts[0] == "bench" and len(parts) == 4:
                yield Value(parts[1], parts[2], parts[3], c.metrics[name], c.stderr.get(name, math.nan),
                            c.counts.get(name, 0), c.kind(name))

    def rows(self) -> Iterator[tuple[str, str, list[Record]]]:
        """Yield task, form and rows of its answers."""
        for (task, form), answers in sorted(self.checkpoint.answers.items()):
            yield task, form, list(answers.rows)


def add(findings: Findings, value: Value, path: Path) -> None:
    """Add a metric of another harness, of the file `path`. Raises InputError: its task or form cannot be a part of a
    metric's name, it is there already, or it is a share and not within 0 and 1."""
    check_names([value.task, value.form], f"{value.task} {value.form}")
    name = f"bench/{value.task}/{value.form}/{value.metric.replace('/', '_')}"
    if name in findings.metrics:
        raise InputError(f"{name} is in two of the files: import them one by one, with another --form each")
    if value.kind.share and not 0 <= value.value <= 1:
        raise InputError(f"{path}: {value.metric} of {value.task} is {value.value:g}, allowed: 0 to 1, as it is a "
                         "share: divide percentages by 100 in the file, standard errors too")
    findings.add(name, Estimate(value.value, value.stderr, value.n), value.kind)


def kind_of(metric: str, higher: bool | None) -> Metric:
    """Return the kind of another harness's metric: a share where its name says so, else of the direction that its file
    declares, and of no direction where it declares none."""
    if _SHARES.match(metric) and higher is not False:
        return share()
    return Metric({True: "higher", False: "lower", None: "neither"}[higher])  # type: ignore[arg-type]


def number(value: object) -> float:
    """Return a finite number, or NaN ("N/A" is none)."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else math.nan


def read_file(path: Path) -> dict[str, Any]:
    """Read a file of results. Raises InputError: it is no JSON object with `results`."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} cannot be read as JSON: {error}") from None
    if isinstance(found, dict) and "eval" in found and "plan" in found:
        raise InputError(f"{path} is a log of Inspect, which is written and not read; allowed: results of lm-eval "
                         "(results_*.json) or of lighteval (results_*.json)")
    if not isinstance(found, dict) or not isinstance(found.get("results"), dict) or not found["results"]:
        raise InputError(f"{path} has no `results`; allowed: results_*.json of lm-eval or of lighteval")
    return found


def results_files(paths: Sequence[Path]) -> list[Path]:
    """List the files of results: those given, and of a folder all below it. Raises InputError: there is none."""
    found: list[Path] = []
    for path in paths:
        own = sorted(path.rglob("results*.json")) if path.is_dir() else [path]
        if not own or not own[0].is_file():
            there = "" if path.exists() else "there is no such file; "
            raise InputError(f"{path}: {there}allowed: a results_*.json of lm-eval or lighteval, or a folder of some")
        found += own
    return list(dict.fromkeys(found))
