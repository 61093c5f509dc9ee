"""Judge what a night evaluated, and end red (or call the webhook) where something got worse; `plan_night` begins it."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from argosy.errors import InputError
from argosy.storage import make_directory, read_json, write_json
from argosy.tracking.pipeline import PipelineTracker
from argosy.tracking.shipper import Unavailable
from workflows import pipelines
from workflows.argo.handoff import FOLDER, Batch, Handoff, deal
from workflows.argo.pod.again import AGAIN
from workflows.argo.pod.message import say_why
from workflows.argo.pod.outputs import write_output, write_outputs
from workflows.argo.pod.run import sending
from workflows.argo.pod.show import note_report
from workflows.argo.profile import Profile
from workflows.argo.profile_load import load_profile
from workflows.argo.remote.night import judging
from workflows.argo.tasks import Task
from workflows.nightly.aliases import aliases_of
from workflows.nightly.judged import alarms
from workflows.nightly.local import describe, run_judgement
from workflows.nightly.night import STAGE, Asked, Night, look
from workflows.nightly.tell import tell
from workflows.plan import Plan, PlannedNode
from workflows.shipping import parent_params, plan_digest

EVALUATE = Task(name=STAGE, stage=STAGE, own=frozenset(), upstream=(), needs="train")
FILE = "night.json"  # beside plan.json
WEBHOOK = "ARGOSY_WEBHOOK"  # whose URL is a secret


def plan_night(arguments: argparse.Namespace) -> int:
    """The plan pod of `evaluate`: what is new, its missing cells as batches, whether there is something to judge."""
    profile = load_profile(arguments.profile)
    store = make_directory(Path(profile.storage.root))
    try:
        nights = look(store, _asked(profile), aliases_of(store))
    except Unavailable as error:
        say_why(f"MLflow does not answer, so it is not known what to compare with: {error}")
        return AGAIN
    print(describe(nights), flush=True)
    nights = _named([night for night in nights if night.pairs])
    batches = _hand_over(nights, store, arguments.workflow, profile) if nights else {}
    whole = Plan(store=str(store), stages=(STAGE,), nodes=tuple(cell for night in nights for cell in night.cells))
    write_outputs(whole, [EVALUATE], {STAGE: batches}, profile, arguments, describe(nights))
    write_output(arguments.outputs, "judge", "yes" if nights or alarms(store, arguments.workflow) else "no")
    write_output(arguments.outputs, "finish", "yes" if nights else "no")
    return 0


def _asked(profile: Profile) -> Asked:
    def names(variable: str, separators: str = "\n") -> tuple[str, ...]:
        text = os.environ.get(variable, "")
        for separator in separators:
            text = text.replace(separator, "\n")
        return tuple(line.strip() for line in text.splitlines() if line.strip())

    reference, model = (os.environ.get(f"ARGOSY_{name}", "").strip() for name in ("REFERENCE", "MODEL"))
    return Asked(names("ARGOSY_CHECKPOINTS"), names("ARGOSY_SUITES", ","), reference, profile.nightly.alias,
                 model or profile.nightly.model)


def _named(nights: Sequence[Night]) -> list[Night]:
    """With ids that differ over the model lines too."""
    times = Counter(cell.id for night in nights for cell in night.cells)

    def cells(night: Night) -> Iterator[PlannedNode]:
        for cell in night.cells:
            yield cell if times[cell.id] == 1 else cell.model_copy(update={"id": f"{cell.id}-{cell.digest}"})

    return [night.model_copy(update={"cells": tuple(cells(night))}) for night in nights]


def _hand_over(nights: Sequence[Night], store: Path, workflow: str, profile: Profile) -> dict[str, Batch]:
    """Write what the pods read, start the pipeline's run of each model line; returns the batches."""
    lines = {plan_digest(night.plan): night for night in nights}
    batches = {
        name: batch.model_copy(update={"pipeline": pipeline})
        for pipeline, night in lines.items()
        for name, batch in deal(STAGE, night.plan.to_run, pipeline, profile.batches).items()
    }
    todo = [cell for night in nights for cell in night.plan.to_run]
    first, *others = lines
    handoff = Handoff(
        store=str(store), line=lines[first].line, pipeline=first, batches=batches,
        nodes={cell.id: cell.model_dump(mode="json") for cell in todo},
        also={pipeline: lines[pipeline].line for pipeline in others},
        namespace=profile.namespace, cluster=profile.cluster,
    )  # fmt: skip
    folder = handoff.write(workflow).parent
    # Without the cells, which are in plan.json: the last pod reads which directories to compare.
    write_json(folder / FILE, {p: n.model_copy(update={"cells": ()}).model_dump(mode="json") for p, n in lines.items()})
    for pipeline, night in lines.items():
        pipelines.record(store, pipeline, night.lifecycle)
        done = [Path(cell.dir).name for cell in night.cells if cell.state == "done"]
        params = parent_params(night.lifecycle) | {"argo.workflow": workflow}
        PipelineTracker(store, pipeline, night.line).start(params, done=done)
    return batches


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the template fills in."""
    parser.add_argument("--workflow", required=True)
    parser.add_argument("--profile", required=True)


def run(arguments: argparse.Namespace) -> int:
    """0; 1 something got worse, or was not evaluated."""
    profile = load_profile(arguments.profile)
    with judging(profile, arguments.workflow):
        return _judge_all(profile, arguments)


def _judge_all(profile: Profile, arguments: argparse.Namespace) -> int:
    store = Path(profile.storage.root)
    failed = []
    folder = store / FOLDER / arguments.workflow
    for pipeline, night in _nights(folder / FILE).items():
        failed += _judge(night, pipeline, folder)
    worse = tell(store, arguments.workflow, os.environ.get(WEBHOOK, "").strip(), _links(profile, arguments.workflow))
    if failed or worse:
        say_why("\n".join((*worse, *failed)))
    return 1 if failed or worse else 0


def _nights(path: Path) -> dict[str, Night]:
    """What the plan pod wrote; {} where nothing was new, and only an alarm is left to be told."""
    if not path.is_file():
        return {}
    try:
        return {pipeline: Night.model_validate(night) for pipeline, night in read_json(path).items()}
    except ValueError as error:
        raise InputError(f"{path} is another version's ({error}); submit the workflow again") from None


def _judge(night: Night, pipeline: str, folder: Path) -> list[str]:
    """Judge the checkpoints that are evaluated; returns what went wrong."""
    wrong = [f"{pair.label} was not evaluated: {', '.join(Path(path).name for path in pair.missing[:3])}"
             for pair in night.pairs if pair.missing]  # fmt: skip
    node = night.judgement()
    if node is None:
        return wrong
    if node.to_run:
        with sending([node], pipeline, night.line):
            result = run_judgement(night, node, plain=True)
        wrong += [f"{each.node.id}: {each.message}" for each in result.having("failed")]
    note_report(folder, Path(node.dir))
    return wrong


def _links(profile: Profile, workflow: str) -> Mapping[str, str]:
    found = {"workflow": workflow}
    if profile.tracking.argo_url:
        found["url"] = f"{profile.tracking.argo_url.rstrip('/')}/workflows/{profile.namespace}/{workflow}"
    return found | ({"mlflow": profile.tracking.url} if profile.tracking.url else {})
