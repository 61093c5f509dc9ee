"""A night, from its plan to the judgement, which ends red (or calls the webhook) where a checkpoint got worse; and the
promotion of a lifecycle's final checkpoint, with the evidence."""

import argparse
import os
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from argosy.core.errors import InputError, StepError
from argosy.core.store.files import make_directory, read_json, write_json
from argosy.core.tracking.mlflow.registry import Registry, registered_name
from argosy.core.tracking.mlflow.server import Server, tracking_uri
from argosy.core.tracking.ship import Unavailable
from workflows.argo import handoff as handoffs
from workflows.argo.attempts import RETRY, say_why
from workflows.argo.objectstore.pods import judging, promoting
from workflows.argo.pod.outputs import with_devices, write_outputs
from workflows.argo.pod.run import sending
from workflows.argo.profile.profile import Profile
from workflows.local.shipping import WORKFLOW, pipeline_of, plan_digest, ship, start_pipeline
from workflows.nightly.announce import alarms, announce
from workflows.nightly.candidates import find_candidates, gate_for, registry_of
from workflows.nightly.night import STAGE, Night, Request, describe, plan_nights, run_judgement, with_unique_ids
from workflows.nightly.promotion import Grounds, Refused, described, examine, final_checkpoint, promote
from workflows.plan import Plan

FILE = "night.json"  # beside plan.json


def plan_night(profile: Profile, arguments: argparse.Namespace) -> int:
    """Plan for `evaluate`: new checkpoints, their missing cells as batches, whether there is something to judge."""

    def names(variable: str, separators: str) -> tuple[str, ...]:
        return tuple(filter(None, map(str.strip, re.split(separators, os.environ.get(variable, "")))))

    store, nightly = make_directory(Path(profile.storage.root)), profile.nightly
    reference, model = (os.environ.get(f"ARGOSY_{name}", "").strip() for name in ("REFERENCE", "MODEL"))
    request = Request(names("ARGOSY_CHECKPOINTS", "\n"), names("ARGOSY_SUITES", "[,\n]"), reference, nightly.alias,
                      model or nightly.model)  # fmt: skip
    try:
        nights = plan_nights(store, request, registry_of(store), lambda config: with_devices(config, profile))
    except Unavailable as error:
        say_why(f"MLflow does not answer, so it is not known what to compare with: {error}")
        return RETRY
    print(describe(nights), flush=True)
    wrong = "; ".join(night.wrong for night in nights if night.wrong)
    nights = [night for night in nights if night.pairs]
    if wrong and not nights:
        raise StepError(wrong)
    nights[:1] = [night.model_copy(update={"wrong": wrong}) for night in nights[:1]]  # said by the last pod: it is red
    cells = iter(with_unique_ids([cell for night in nights for cell in night.cells]))  # over the model lines too
    nights = [night.model_copy(update={"cells": tuple(islice(cells, len(night.cells)))}) for night in nights]
    batches = _hand_over(nights, store, arguments.workflow, profile) if nights else {}
    whole = Plan(store=str(store), stages=(STAGE,), nodes=tuple(cell for night in nights for cell in night.cells))
    write_outputs(whole, [handoffs.EVALUATE], {STAGE: batches}, profile, arguments, describe(nights))
    handoffs.write_output(arguments.outputs, "judge", "yes" if nights or alarms(store, arguments.workflow) else "no")
    handoffs.write_output(arguments.outputs, "finish", "yes" if nights else "no")
    handoffs.write_output(arguments.outputs, handoffs.COMMON, "")  # a night has batches of several pipelines
    return 0


def _hand_over(nights: Sequence[Night], store: Path, workflow: str, profile: Profile) -> dict[str, handoffs.Batch]:
    """Write the handoff, start the pipeline's run of each model line; return the batches."""
    lines = {pipeline_of(store, plan_digest(night.plan), workflow): night for night in nights}
    batches = {name: batch.model_copy(update={"pipeline": pipeline}) for pipeline, night in lines.items()
               for name, batch in handoffs.deal(STAGE, night.plan.to_run, pipeline, profile.batches).items()}
    todo = [cell for night in nights for cell in night.plan.to_run]
    first, *others = lines
    handoff = handoffs.Handoff(
        store=str(store), line=lines[first].line, pipeline=first, batches=batches,
        nodes={cell.id: cell.model_dump(mode="json") for cell in todo},
        also={pipeline: lines[pipeline].line for pipeline in others},
        namespace=profile.namespace, cluster=profile.cluster,
    )  # fmt: skip
    folder = handoff.write(workflow).parent
    # Without the cells, which are in plan.json: the last pod reads which directories to compare.
    write_json(folder / FILE, {p: n.model_copy(update={"cells": ()}).model_dump(mode="json") for p, n in lines.items()})
    for pipeline, night in lines.items():
        start_pipeline(night.plan, pipeline, night.line, night.lifecycle, todo=1, **{WORKFLOW: workflow})
    return batches


def run(profile: Profile, arguments: argparse.Namespace) -> int:
    """Judge; return 0, or 1 where a checkpoint got worse, or was not evaluated."""
    store = Path(profile.storage.root)
    folder = store / handoffs.FOLDER / arguments.workflow
    with judging(profile, arguments.workflow):
        failed = [why for pipeline, night in _nights(folder / FILE).items() for why in _judge(night, pipeline, folder)]
        links = {"workflow": arguments.workflow}
        if argo := profile.tracking.argo_url.rstrip("/"):
            links["url"] = f"{argo}/workflows/{profile.namespace}/{arguments.workflow}"
        if profile.tracking.url:
            links["mlflow"] = profile.tracking.url
        worse = announce(store, arguments.workflow, os.environ.get(handoffs.WEBHOOK, "").strip(), links)
        if failed or worse:
            say_why("\n".join((*worse, *failed)))
        return 1 if failed or worse else 0


def _nights(path: Path) -> dict[str, Night]:
    """Read what the plan pod wrote; {} where nothing was new, and only an alarm is left to be announced."""
    if not path.is_file():
        return {}
    try:
        return {pipeline: Night.model_validate(night) for pipeline, night in read_json(path).items()}
    except ValueError as error:
        raise InputError(f"{path} is another version's ({error}); submit the workflow again") from None


def _judge(night: Night, pipeline: str, folder: Path) -> list[str]:
    """Judge the checkpoints that are evaluated; return what went wrong."""
    wrong = [night.wrong] if night.wrong else []
    wrong += [f"{pair.label} was not evaluated: {', '.join(Path(path).name for path in pair.missing[:3])}"
              for pair in night.pairs if pair.missing]  # fmt: skip
    node = night.judgement()
    if node is None:
        return wrong
    if node.to_run:
        with sending([node], pipeline, night.line, ""):
            result = run_judgement(night, node, plain=True)
        wrong += [f"{each.node.id}: {each.message}" for each in result.having("failed")]
    write_json(folder / handoffs.REPORT, {"report": node.dir})
    return wrong


def promote_final(profile: Profile, arguments: argparse.Namespace) -> int:
    """Promote; return 0, 1 where the gate fails, 2 with nothing to promote, 75 where MLflow does not answer."""
    with promoting(profile, arguments.workflow) as fetch:
        handoff = handoffs.read_handoff(Path(profile.storage.root) / handoffs.FOLDER / arguments.workflow / "plan.json")
        if arguments.decision == "keep":
            print(f"{profile.nightly.alias} stays as it is{f', says {arguments.by}' if arguments.by else ''}")
            return 0
        if not handoff.report:
            raise InputError("this workflow compares nothing, so nothing can be promoted")
        candidate = final_checkpoint(Path(handoff.report))
        store = Path(handoff.store)
        if not ship(handoff.store):  # the checkpoint is to be known there
            say_why("MLflow does not take what steps logged: promotion waits for it")
            return RETRY
        alias, model = profile.nightly.alias, profile.nightly.model
        registry = Registry(Server(tracking_uri(store), store))
        by = arguments.by or f"workflow {arguments.workflow}"
        try:
            gate = gate_for(None, store, candidate.step.line)
            verdict, against = examine(gate, candidate, find_candidates(store), store, registry, alias=alias,
                                       model=model, fetch=fetch) if gate is not None else (None, None)
            grounds = Grounds(by, handoff.report, arguments.workflow, verdict, against=against)
            before, now = promote(registry, candidate, store, grounds, alias=alias, model=model)
        except Refused as error:
            say_why(f"{error}; argosy promote --force WHY moves it all the same")
            return error.exit_code
        except (StepError, Unavailable) as error:
            say_why(str(error))
            return RETRY
        print(f"{registered_name(model or handoff.line)}@{alias} is {described(now)}, {candidate.label}; "
              f"it was {described(before)}")
        return 0
