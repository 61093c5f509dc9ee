"""Compare evaluated checkpoints: which is better at what, what was forgotten, what was memorised.

    python -m steps.compare --config '{"evaluations": ["DIR", ...], "checkpoints": ["DIR", ...]}' --out DIR

Writes `report.html` (one file that needs no network) and `comparison.json` (the numbers). What is missing makes
the report shorter. See docs/report.md."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from argosy.core.config.schema import Config, ModelDirs, Upstream, Upstreams
from argosy.core.errors import ArgosyError, InputError
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.store.files import read_record, write_atomic, write_json
from argosy.core.store.step_files import RUN, read_done
from argosy.evidence.results.items import ASKED
from argosy.evidence.results.suite import FOLDERS

if TYPE_CHECKING:
    from argosy.evidence.compare.checkpoints import Checkpoint
    from argosy.evidence.report.items import Asked, Key

REPORT, COMPARISON = "report.html", "comparison.json"


class CompareConfig(Config):
    """Checkpoints and evaluations to compare; every field may be empty."""

    evaluations: Upstreams = Field((), description="directories of evaluate steps")
    checkpoints: ModelDirs = Field((), description="directories of training steps, in the pipeline's order")
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
    """Compare and write both files. Raises InputError: there is neither an evaluation nor a checkpoint."""
    from argosy.evidence.compare.changes import compare
    from argosy.evidence.compare.checkpoints import read_checkpoints
    from argosy.evidence.report.pipeline import notes_of_data, notes_of_leaks, read_stages
    from argosy.evidence.report.record import stages_record
    from argosy.evidence.report.report import Page, render_report

    if not config.evaluations and not config.checkpoints:
        raise InputError("compare has nothing to compare: give evaluations, checkpoints, or both")
    checkpoints = read_checkpoints(config.checkpoints, config.evaluations)
    steps = filter(None, [config.data, config.clean, *config.others, *config.checkpoints, *config.evaluations])
    stages = read_stages([*steps])
    checkpoints.notes = [*notes_of_data(config.data), *notes_of_leaks(stages), *checkpoints.notes]
    found = compare(checkpoints)
    comparison = stages_record(found)
    write_json(context.out / COMPARISON, comparison)
    cleaned = read_record(Path(config.clean) / "report.json") if config.clean else {}
    page = Page(found, context.out, os.environ.get("ARGOSY_LINE", ""), stages, cleaned)
    write_atomic(context.out / REPORT, render_report(page))
    verdict = [sentence["text"] for sentence in comparison["verdict"]]
    print("\n".join([*verdict, *checkpoints.notes]))
    labels = {c.key: c.label for c in checkpoints.every}
    return CompareOutputs(report=REPORT, comparison=COMPARISON, checkpoints=len(checkpoints.evaluated),
                          best={task.task: labels[task.best] for task in found.tasks if task.best},
                          seen={task.task: sorted(labels[key] for key in task.seen) for task in found.tasks},
                          verdict=verdict)


def question_texts(checkpoints: "Sequence[Checkpoint]", wanted: "Iterable[Key]",
                   tell: Callable[[str], object] = len) -> "dict[Key, Asked]":
    """Make questions that the checkpoints answered again, from the suites of their evaluations; those that would not
    be asked in the same words now are left out. `tell`: takes a sentence on questions without a text, and why."""
    from argosy.evidence.report.items import Asked
    from argosy.evidence.results.suite import load_suite
    from evals.section import remake_questions

    digests = {(*group, str(row["id"])): row.get(ASKED) for checkpoint in checkpoints
               for group, rows in checkpoint.rows.groups.items() for row in rows}
    keys, why = dict.fromkeys(wanted), dict[str, None]()
    found: dict[Key, Asked] = {}
    for suite, data, seed, limit in sorted({_source(path) for each in checkpoints for path in each.evaluations}):
        left = [key for key in keys if key not in found]
        if not suite or not left:
            continue
        try:
            made = remake_questions(load_suite(suite), Path(data or "."), seed, left, limit or None,
                                    lambda reason: why.setdefault(reason))
        except (ArgosyError, OSError) as error:
            why[f"suite {suite}: {error}"] = None
            continue
        same = {key: q for key, q in made.items() if digests.get(key) in (None, q.digest)}
        if len(same) < len(made):
            why[f"suite {suite} asks in other words than it did"] = None
        found |= {key: Asked(q.prompt, tuple(q.continuations), q.before, q.prompts,
                             q.generation.answer if q.generation else "") for key, q in same.items()}
    if missing := len(keys.keys() - found.keys()):
        tell(f"{missing:,} of {len(keys):,} questions are without their text: "
             f"{'; '.join(why) or 'no suite here has these items and forms'}")
    return found


def _source(evaluation: Path) -> tuple[str, str, int, int]:
    """Return the suite (a name or a file), the data step's directory, seed and limit (0: none) of an evaluation. Both
    may have moved since: a shipped suite is known by its name, a data step by its digest, beside the evaluation."""
    settings = read_record(evaluation / RUN).get("config", {})
    suite, data = (str(settings.get(name) or "") for name in ("suite_file", "data"))
    name = str(settings.get("suite") or "")
    if not Path(suite).is_file() and any((folder / f"{name}.yaml").is_file() for folder in FOLDERS):
        suite = name
    if not Path(data).is_dir() or not data:
        made = (read_done(evaluation) or {}).get("made_from", {}).get("upstream", {}).get("data", [])
        data = next((str(path) for digest in made for path in sorted(evaluation.parent.glob(f"*-{digest}"))), data)
    return suite or name, data, int(settings.get("seed") or 0), int(settings.get("limit") or 0)


STEP = Step("compare", CompareConfig, run, version=4)

if __name__ == "__main__":
    main(STEP)
