"""The plan pod: it plans as the laptop does, and hands each task its batches as output parameters."""

import argparse
import contextlib
import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from argosy.core.config.explain import likely
from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.store.files import make_directory, write_json
from workflows.argo.handoff import COMMON, GIVEN, OUTPUTS, Batch, Handoff, Task, assign, deal, tasks_of
from workflows.argo.objectstore.pods import planning
from workflows.argo.pod.branches import item_tasks, write_tree
from workflows.argo.pod.finish import FINISHED
from workflows.argo.pod.fit import check_node
from workflows.argo.pod.outputs import with_devices, write_output, write_outputs
from workflows.argo.profile.profile import TEMPLATE_STORE, Profile, check_store
from workflows.compose import compose, every_stage
from workflows.lifecycle import LifecycleConfig, lifecycle
from workflows.local.shipping import WORKFLOW, pipeline_of, plan_digest, start_pipeline
from workflows.plan import Plan, describe, plan
from workflows.sweep import NAME, Question, every_sweep_stage, read_sweep, sweep_nodes

SWEEP_FIELDS = ("seeds", "channel", "target-parameters", "target-width")  # of the template `sweep`, beside the common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that the template fills in; config and overrides: ARGOSY_CONFIG, ARGOSY_OVERRIDES."""
    parser.add_argument("template", choices=["lifecycle", "evaluate", NAME])
    parser.add_argument("--image-tag", default="")
    parser.add_argument("--priority", default="")
    parser.add_argument("--preset", default="")
    parser.add_argument("--from", dest="first", default="")
    parser.add_argument("--to", dest="last", default="")
    parser.add_argument("--promote", default="no")
    for name in SWEEP_FIELDS:
        parser.add_argument(f"--{name}", default="")
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
        return _plan_sweep(profile, arguments) if arguments.template == NAME else _plan_lifecycle(profile, arguments)


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
    items = [branch.name for branch in config.posttraining]
    own, evaluations = item_tasks(planned.nodes, items)
    tasks = [*tasks_of(every_stage()), *own]
    batches = hand_over(planned, config, config.name, tasks, profile, arguments, evaluations)
    write_tree(arguments.outputs, planned.nodes, items, batches)
    return 0


def _plan_sweep(profile: Profile, arguments: argparse.Namespace) -> int:
    seeds, target, width = (_number(arguments, name) for name in ("seeds", "target-parameters", "target-width"))
    with _given() as (file, overrides):
        sweep = read_sweep(arguments.preset or None, file, overrides, int(seeds))
    sweep = replace(sweep, points=tuple(with_devices(point, profile) for point in sweep.points))
    root = Path(profile.storage.root)
    question = Question(arguments.channel or "all", target, int(width))
    planned = plan(sweep_nodes(sweep, question, root, together=1), root)  # a pod for each point, up to `batches`
    check_node(planned.to_run, profile)
    hand_over(planned, sweep.first, sweep.line, tasks_of(every_sweep_stage()), profile, arguments)
    return 0


def _number(arguments: argparse.Namespace, name: str) -> float:
    text = getattr(arguments, name.replace("-", "_")).strip()
    try:
        found = float(text or 0)
    except ValueError:
        found = -1.0
    if not 0 <= found < math.inf or (name != "target-parameters" and found != int(found)):
        raise InputError(f"{name} is {text!r}, allowed: a number, 0 or more, or nothing")
    return found


def hand_over(
    planned: Plan, config: Config, line: str, tasks: list[Task], profile: Profile, arguments: argparse.Namespace,
    alike: Sequence[Task] = (),
) -> dict[str, dict[str, Batch]]:
    """Write the handoff, start the pipeline's run, write the output parameters; return the batches by task.

    `alike`: further tasks, whose pods get the patch of one of `tasks`."""
    print(describe(planned), flush=True)
    make_directory(Path(planned.store))
    pipeline = pipeline_of(Path(planned.store), plan_digest(planned), arguments.workflow, todo=len(planned.to_run))
    batches = {task: deal(task, [node for node in nodes if node.to_run], pipeline, profile.batches)
               for task, nodes in assign(planned.nodes, [*tasks, *alike]).items()}
    compare = next((node.dir for node in planned.nodes if node.name in ("compare", NAME)), "")
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
    return batches


def _config(preset: str) -> LifecycleConfig:
    """Compose preset, ARGOSY_CONFIG (YAML) and ARGOSY_OVERRIDES (one a line)."""
    with _given() as (file, overrides):
        return compose(preset or None, file, overrides)


@contextlib.contextmanager
def _given() -> Iterator[tuple[Path | None, list[str]]]:
    """Give the config as a file, if there is any, and the overrides; errors inside call the file `config`."""
    overrides = [line.strip() for line in os.environ.get("ARGOSY_OVERRIDES", "").splitlines() if line.strip()]
    text = os.environ.get("ARGOSY_CONFIG", "")
    if not text.strip():
        yield None, overrides
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config"
        file.write_text(text, encoding="utf-8")
        try:
            yield file, overrides
        except InputError as error:
            raise InputError(str(error).replace(str(file), "config")) from None
