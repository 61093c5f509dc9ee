"""Compare evaluated checkpoints: which is better at what, what was forgotten, what was memorised.

    python -m steps.compare --config '{"evaluations": ["DIR", ...], "checkpoints": ["DIR", ...]}' --out DIR

Writes `report.html` (one file that needs no network) and `comparison.json` (the numbers). What is missing makes
the report shorter. See docs/report.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from argosy.config import Config, Upstream, Upstreams
from argosy.errors import ArgosyError, InputError
from argosy.step import Step, StepContext
from argosy.step_files import RUN
from argosy.storage import read_record, write_atomic, write_json

if TYPE_CHECKING:
    from argosy.evaluation.suite import Suite
    from argosy.report.checkpoints import Checkpoints
    from argosy.report.samples import Asked, Key

REPORT, COMPARISON = "report.html", "comparison.json"
_ROOT = Path(__file__).parent.parent


class CompareConfig(Config):
    """What is compared; every field may be empty."""

    evaluations: Upstreams = Field((), description="directories of evaluate steps")
    checkpoints: Upstreams = Field((), description="directories of the training steps, in the order of the pipeline")
    clean: Upstream = Field("", description="directory of the clean step: what was dropped")
    data: Upstream = Field("", description="directory of the data step: the texts of the benchmark's items")
    others: Upstreams = Field((), description="further steps that the report tells the cost and the curves of")


class CompareOutputs(Config):
    """verdict: the report's sentences, the most important first; best: label of the best checkpoint by task."""

    report: str
    comparison: str
    checkpoints: int
    best: dict[str, str]
    seen: dict[str, list[str]]
    verdict: list[str]


def run(config: CompareConfig, context: StepContext) -> CompareOutputs:
    """Compare and write both files.

    Raises:
        InputError: there is neither an evaluation nor a checkpoint.
    """
    from argosy.report.comparison import compare
    from argosy.report.load import read_checkpoints
    from argosy.report.origin import notes_of_data
    from argosy.report.page import Page, render
    from argosy.report.record import record
    from argosy.report.samples import sample
    from argosy.report.stages import read_stages

    if not config.evaluations and not config.checkpoints:
        raise InputError("compare has nothing to compare: give evaluations, checkpoints, or both")
    checkpoints = read_checkpoints(config.checkpoints, config.evaluations)
    checkpoints.notes = [*notes_of_data(config.data), *checkpoints.notes]
    found = compare(checkpoints)
    comparison = record(found)
    write_json(context.out / COMPARISON, comparison)
    samples = sample(found)
    cleaned = read_record(Path(config.clean) / "report.json") if config.clean else {}
    page = Page(found, context.out, os.environ.get("ARGOSY_LINE", ""), read_stages(list(_all_steps(config))), cleaned,
                samples, _asked(config, checkpoints, [s.key for pair in samples for s in pair.samples]))
    write_atomic(context.out / REPORT, render(page))
    verdict = [sentence["text"] for sentence in comparison["verdict"]]
    print("\n".join([*verdict, *checkpoints.notes]))
    labels = {c.key: c.label for c in checkpoints.every}
    return CompareOutputs(
        report=REPORT, comparison=COMPARISON, checkpoints=len(checkpoints.evaluated),
        best={task.task: labels[task.best] for task in found.tasks if task.best},
        seen={task.task: sorted(labels[key] for key in task.seen) for task in found.tasks},
        verdict=verdict)


def _all_steps(config: CompareConfig) -> Iterator[str]:
    yield from filter(None, [config.data, config.clean, *config.others, *config.checkpoints, *config.evaluations])


def _asked(config: CompareConfig, checkpoints: Checkpoints, wanted: Sequence[Key]) -> dict[Key, Asked]:
    """The sampled questions, made again from the suites of the evaluations; a page without them is still a page."""
    if not config.data or not wanted:
        return {}
    from argosy.report.samples import Asked
    from evals.prompts import questions

    found: dict[Key, Asked] = {}
    for suite, seed, limit in sorted({_suite_of(path) for c in checkpoints.evaluated for path in c.evaluations}):
        try:
            made = questions(_load(suite), Path(config.data), seed, wanted, limit or None)
        except ArgosyError as error:
            print(f"the items of suite {suite} are shown without their text: {error}")
            continue
        found |= {key: Asked(question.prompt, question.continuations) for key, question in made.items()}
    return found


def _suite_of(evaluation: Path) -> tuple[str, int, int]:
    """The suite's file, or its name, and the seed and the limit (0: none) that an evaluation ran with."""
    settings = read_record(evaluation / RUN).get("config", {})
    suite = settings.get("suite_file") or settings.get("suite") or ""
    return suite, int(settings.get("seed") or 0), int(settings.get("limit") or 0)


def _load(suite: str) -> Suite:
    from argosy.evaluation.suite import load_suite

    is_file = suite.endswith((".yaml", ".yml"))
    return load_suite(suite, suite if is_file else "", [_ROOT / "evals/suites", _ROOT / "probes/suites"])


STEP = Step("compare", CompareConfig, run, version=2)

if __name__ == "__main__":
    STEP.main()
