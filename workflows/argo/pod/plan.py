"""Plan as the laptop does, write what each task runs into the store, and its batches as output parameters."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from argosy.config import Config
from argosy.errors import InputError
from argosy.storage import make_directory, write_json
from argosy.tracking.pipeline import PipelineTracker
from workflows import pipelines
from workflows.argo.handoff import Batch, Handoff, deal
from workflows.argo.outputs import OUTPUTS
from workflows.argo.pod.finish import FINISHED
from workflows.argo.pod.outputs import write_output, write_outputs
from workflows.argo.profile import Profile
from workflows.argo.profile_check import TEMPLATE_STORE, check_store
from workflows.argo.profile_load import load_profile
from workflows.argo.remote import planning
from workflows.argo.tasks import Task, assign, tasks_of
from workflows.cli.plan import describe
from workflows.compose import compose
from workflows.lifecycle import LifecycleConfig, lifecycle
from workflows.plan import Plan, PlannedNode, plan
from workflows.shipping import parent_params, plan_digest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the template fills in; config and overrides come as ARGOSY_CONFIG and ARGOSY_OVERRIDES."""
    parser.add_argument("template", choices=["lifecycle", "evaluate"])
    parser.add_argument("--workflow", required=True)
    parser.add_argument("--profile", required=True)
    parser.add_argument("--image-tag", default="")
    parser.add_argument("--priority", default="")
    parser.add_argument("--preset", default="")
    parser.add_argument("--from", dest="first", default="")
    parser.add_argument("--to", dest="last", default="")
    parser.add_argument("--promote", default="no")
    parser.add_argument("--outputs", type=Path, default=Path(OUTPUTS))


def run(arguments: argparse.Namespace) -> int:
    """Plan, hand over."""
    profile = load_profile(arguments.profile)
    check_store(profile, os.environ.get(TEMPLATE_STORE, profile.storage.place))
    with planning(profile, arguments.workflow):
        if arguments.template == "evaluate":
            from workflows.argo.pod.nightly import plan_night

            return plan_night(arguments)
        return _plan_lifecycle(profile, arguments)


def _plan_lifecycle(profile: Profile, arguments: argparse.Namespace) -> int:
    config = _config(arguments.preset)
    planned = plan(lifecycle(config), profile.storage.root, arguments.first or None, arguments.last or None)
    _check_promotion(planned, arguments.promote)
    tasks = tasks_of(plan(lifecycle(LifecycleConfig()), "/nowhere").nodes)
    hand_over(planned, config, config.name, tasks, profile, arguments)
    return 0


def _check_promotion(planned: Plan, promote: str) -> None:
    """Raises InputError where nothing will be compared: a person would be asked for nothing."""
    compared = any(node.name == "compare" and (node.to_run or node.state == "done") for node in planned.nodes)
    if promote != "no" and not compared:
        raise InputError(
            f"promote is {promote!r}, but compare is not among the stages from --from to --to and was never done: "
            "end with compare (an empty 'to'), or leave promote at 'no'"
        )


def hand_over(
    planned: Plan, config: Config, line: str, tasks: list[Task], profile: Profile, arguments: argparse.Namespace
) -> None:
    """Write the handoff, start the pipeline's run, write the output parameters."""
    print(describe(planned), flush=True)
    make_directory(Path(planned.store))
    pipeline = plan_digest(planned)
    batches = _batches(assign(planned.nodes, tasks), pipeline, profile.batches)
    compare = next((node.dir for node in planned.nodes if node.name == "compare"), "")
    handoff = Handoff(
        store=planned.store,
        line=line,
        pipeline=pipeline,
        nodes={node.id: node.model_dump(mode="json") for node in planned.to_run},
        batches={name: batch for dealt in batches.values() for name, batch in dealt.items()},
        report=compare,
        namespace=profile.namespace,
        cluster=profile.cluster,
    )
    path = handoff.write(arguments.workflow)
    pipelines.record(Path(planned.store), pipeline, config)
    done = [Path(node.dir).name for node in planned.nodes if node.state == "done"]
    tracker = PipelineTracker(Path(planned.store), pipeline, line)
    told = not planned.to_run and tracker.tracker.last_status == "FINISHED"  # MLflow was: this changes nothing
    tracker.start(parent_params(config) | {"argo.workflow": arguments.workflow}, done=done, todo=len(planned.to_run))
    if told:
        write_json(path.parent / FINISHED, {"status": "FINISHED"})
    write_outputs(planned, tasks, batches, profile, arguments, describe(planned))
    write_output(arguments.outputs, "finish", "no" if told else "yes")


def _batches(assigned: Mapping[str, list[PlannedNode]], pipeline: str, most: int) -> dict[str, dict[str, Batch]]:
    return {
        task: deal(task, [node for node in nodes if node.to_run], pipeline, most) for task, nodes in assigned.items()
    }


def _config(preset: str) -> LifecycleConfig:
    """The lifecycle's config of preset, ARGOSY_CONFIG (YAML) and ARGOSY_OVERRIDES (one a line)."""
    overrides = [line.strip() for line in os.environ.get("ARGOSY_OVERRIDES", "").splitlines() if line.strip()]
    text = os.environ.get("ARGOSY_CONFIG", "")
    if not text.strip():
        return compose(preset or None, None, overrides)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config"
        file.write_text(text, encoding="utf-8")
        try:
            return compose(preset or None, file, overrides)
        except InputError as error:
            raise InputError(str(error).replace(str(file), "config")) from None
