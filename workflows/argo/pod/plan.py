"""The plan pod: it plans as the laptop does, and hands each task its batches as output parameters."""

import argparse
import os
import tempfile
from pathlib import Path

from argosy.config.explain import likely
from argosy.config.schema import Config
from argosy.errors import InputError
from argosy.store.files import make_directory, write_json
from workflows.argo.handoff import COMMON, GIVEN, OUTPUTS, Handoff, Task, assign, deal, tasks_of
from workflows.argo.objectstore.pods import planning
from workflows.argo.pod.finish import FINISHED
from workflows.argo.pod.fit import check_node
from workflows.argo.pod.outputs import with_devices, write_output, write_outputs
from workflows.argo.profile.profile import TEMPLATE_STORE, Profile, check_store
from workflows.compose import compose
from workflows.lifecycle import LifecycleConfig, every_stage, lifecycle
from workflows.local.shipping import WORKFLOW, pipeline_of, plan_digest, start_pipeline
from workflows.plan import Plan, describe, plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that the template fills in; config and overrides: ARGOSY_CONFIG, ARGOSY_OVERRIDES."""
    parser.add_argument("template", choices=["lifecycle", "evaluate"])
    parser.add_argument("--image-tag", default="")
    parser.add_argument("--priority", default="")
    parser.add_argument("--preset", default="")
    parser.add_argument("--from", dest="first", default="")
    parser.add_argument("--to", dest="last", default="")
    parser.add_argument("--promote", default="no")
    parser.add_argument("--fields", default="", help="the template's parameters")
    parser.add_argument("--outputs", type=Path, default=Path(OUTPUTS))


def run(profile: Profile, arguments: argparse.Namespace) -> int:
    """Plan and hand over."""
    fields = arguments.fields.split()
    for name in os.environ.get(GIVEN, "").split():  # Argo ignores one that the template does not have
        if fields and name not in (*fields, "json"):  # Argo's own `workflow.parameters.json`
            raise InputError(f"the WorkflowTemplate {arguments.template} has no parameter {name!r}; "
                             f"{likely(name, fields)}")
    check_store(profile, os.environ.get(TEMPLATE_STORE, profile.storage.description))
    with planning(profile, arguments.workflow):
        if arguments.template == "evaluate":
            from workflows.argo.pod.nightly import plan_night

            return plan_night(profile, arguments)
        return _plan_lifecycle(profile, arguments)


def _plan_lifecycle(profile: Profile, arguments: argparse.Namespace) -> int:
    config = _config(arguments.preset)  # as it is recorded: the devices are the profile's
    nodes = lifecycle(with_devices(config, profile))
    planned = plan(nodes, profile.storage.root, arguments.first or None, arguments.last or None)
    compared = any(node.name == "compare" and (node.to_run or node.state == "done") for node in planned.nodes)
    if arguments.promote != "no" and not compared:  # a person would be asked for nothing
        raise InputError(
            f"promote is {arguments.promote!r}, but compare is not among the stages from --from to --to and was never "
            "done: end with compare (an empty 'to'), or leave promote at 'no'"
        )
    check_node(planned.to_run, profile)
    hand_over(planned, config, config.name, tasks_of(every_stage()), profile, arguments)
    return 0


def hand_over(
    planned: Plan, config: Config, line: str, tasks: list[Task], profile: Profile, arguments: argparse.Namespace
) -> None:
    """Write the handoff, start the pipeline's run, write the output parameters."""
    print(describe(planned), flush=True)
    make_directory(Path(planned.store))
    pipeline = pipeline_of(Path(planned.store), plan_digest(planned), arguments.workflow, todo=len(planned.to_run))
    batches = {task: deal(task, [node for node in nodes if node.to_run], pipeline, profile.batches)
               for task, nodes in assign(planned.nodes, tasks).items()}
    compare = next((node.dir for node in planned.nodes if node.name == "compare"), "")
    handoff = Handoff(
        store=planned.store, line=line, pipeline=pipeline,
        nodes={node.id: node.model_dump(mode="json") for node in planned.to_run},
        batches={name: batch for dealt in batches.values() for name, batch in dealt.items()}, report=compare,
        namespace=profile.namespace, cluster=profile.cluster
    )
    path = handoff.write(arguments.workflow)
    tracker = start_pipeline(planned, pipeline, line, config, **{WORKFLOW: arguments.workflow})
    unchanged = not planned.to_run and tracker.tracker.last_status == "FINISHED"  # MLflow was: this changes nothing
    if unchanged:
        write_json(path.parent / FINISHED, {"status": "FINISHED"})
    write_outputs(planned, tasks, batches, profile, arguments, describe(planned))
    write_output(arguments.outputs, "finish", "no" if unchanged else "yes")
    write_output(arguments.outputs, COMMON, f"{pipeline}-")


def _config(preset: str) -> LifecycleConfig:
    """Compose preset, ARGOSY_CONFIG (YAML) and ARGOSY_OVERRIDES (one a line)."""
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
