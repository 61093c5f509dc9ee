"""Options of a config that commands share, the config that they name, and what its plan will take."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.core.config.load import read_yaml
from argosy.core.errors import InputError
from argosy.core.store.files import read_record
from argosy.core.store.lease import check_seconds
from argosy.corpus.text.display import columns
from argosy.model.weights.checkpoint import stage_of
from workflows.amounts import Ahead, amounts, describe_amounts
from workflows.budget import accounts, check_budget
from workflows.cli.command import checked, user_path
from workflows.compose import DEFAULT_PRESET, compose, preset_names, preset_of
from workflows.graph import Node
from workflows.learnt import describe_learnt, learn
from workflows.lifecycle import LifecycleConfig
from workflows.plan import Plan, check_inputs, describe, plan

if TYPE_CHECKING:
    from argosy.model.train.sizing.architecture import Architecture

PHASES = ("pretrain", "long_context", "anneal")  # steps of argosy/model/train
PROJECT_FILE = "argosy.yaml"
OVERRIDES = """overrides:
  sft.learning_rate=1e-4         a field of a stage; its value is YAML
  data.inputs=a.txt,~/b.jsonl    a list: values with commas, or the override several times
  'pretrain.exports=[0.5, 1.0]'  quotes where there are spaces or brackets
  clean.filters.0=unicode        one value of a list, counted from 0
  dpo=null                       leave a stage out
All fields of a stage with their meanings: python -m steps.NAME --help, where NAME is the stage's
(train_tokenizer for tokenizer, sft for twin)."""


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--preset", metavar="NAME",
                        help=f"config to start from: {', '.join(preset_names())} (default: {DEFAULT_PRESET})")
    file = checked(user_path, f"a YAML file, such as {PROJECT_FILE}", lambda path: not path.is_dir())
    parser.add_argument("--config", type=file, metavar="FILE",
                        help=f"YAML on top of the preset (default without --preset: ./{PROJECT_FILE} if it is there)")
    parser.add_argument("overrides", nargs="*", metavar="stage.field=value",
                        help="overrides of preset and file: see below")


def add_range(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="first", metavar="STAGE",
                        help="first stage to run; the stages that it needs must be done")
    parser.add_argument("--to", dest="last", metavar="STAGE", help="last stage to run")


def load_config(args: argparse.Namespace) -> LifecycleConfig:
    """Compose the config that the command line names. Raises InputError: preset, file or overrides are wrong."""
    file = config_file(args)
    if file and not args.config:
        print(f"config: {file}", file=sys.stderr)
    config = compose(args.preset, file, args.overrides)
    if config.start and config.start.model and (stage := stage_of(Path(config.start.model))):
        print(f"start.model: {config.start.model}, a checkpoint of the stage {stage}", file=sys.stderr)
    if file and not read_yaml(file).data and not config.data.inputs:
        print(f"{file} is empty: what runs is the preset {args.preset or DEFAULT_PRESET} with the built-in demo data",
              file=sys.stderr)
    return config


def trained_model(config: LifecycleConfig) -> "Architecture":
    """Read the shapes of the model that the config trains: a new one, or that of `start.model`. Raises InputError: its
    type is not known to the planner of training, or it is not a directory with config.json."""
    from argosy.model.train.sizing.architecture import of_pipeline, open_architecture

    if config.start is None:
        return of_pipeline(config.pretrain.model.model_dump(), config.tokenizer.vocab_size)
    if config.start.hub:
        raise InputError(f"start.model={config.start.hub} is of the hub, and not here: name a directory that holds its "
                         "config.json with --model-dir")
    return open_architecture(Path(config.start.model))


def checked_plan(args: argparse.Namespace, build: Callable[[LifecycleConfig], list[Node]]
                 ) -> tuple[Plan, LifecycleConfig, list[Ahead]]:
    """Plan what the command line names, ask the steps what they would refuse, and count what training comes to. Raises
    InputError: the config, the range or an input is wrong."""
    config = load_config(args)
    check_seconds()
    nodes = build(config)
    planned = plan(nodes, args.store, args.first, args.last)
    check_inputs(nodes, {node.name for node in planned.to_run})
    check_budget(accounts(planned, config), planned)
    if spot := ", ".join(dict.fromkeys(node.name for node in planned.to_run if node.resources.spot)):
        print(f"note: resources.STAGE.spot of {spot}: here it only saves states more often; a cluster's profile has "
              "the place of such machines", file=sys.stderr)
    return planned, config, amounts(planned, config.data)


def describe_all(planned: Plan, config: LifecycleConfig, ahead: Sequence[Ahead]) -> str:
    """Describe what each phase of training takes, where the shapes of the model are known here, the amounts of all
    training, and the plan."""
    from argosy.planning.report import phase_rows

    phases = {node.name: (json.loads(node.config), node.resources.processes, bool(node.resources.gpus))
              for node in planned.nodes if node.step in PHASES and node.selected}
    try:
        training = f"{phase_rows(trained_model(config), phases)}\n\n" if phases else ""
    except InputError:
        training = ""
    learnt = describe_learnt(learn(planned), apply=config.learn_resources)
    spending = "".join(f"{each.describe()}\n\n" for each in accounts(planned, config))
    return training + describe_amounts(ahead) + _epochs(planned) + learnt + spending + describe(planned)


def _epochs(planned: Plan) -> str:
    """Describe how often each phase of training will see each channel, where the tokens are there already."""
    from argosy.corpus.tokens.epochs import HEAD, planned_tables, table_rows

    tokenized = next((node for node in planned.nodes if node.step == "tokenize" and node.state == "done"), None)
    phases = {node.name: json.loads(node.config) for node in planned.nodes if node.step in PHASES}
    index = read_record(Path(tokenized.dir) / "index.json") if tokenized else {}
    if not index or not phases:
        return ""
    try:
        tables = planned_tables(index, phases)
    except InputError as error:
        return f"will be refused: {error}\n\n"
    selected = {node.name for node in planned.nodes if node.selected}
    rows = [(name, *cells) for name, table in tables.items() if name in selected for cells in table_rows(table)]
    return columns([("PHASE", *HEAD), *rows], right=range(2, 8)) + "\n\n" if rows else ""


def config_parameters(args: argparse.Namespace) -> dict[str, str]:
    """Give the config as parameters of a workflow; the preset too, as the template's default may be another. Raises
    InputError: an override or the file is none that a parameter can hold."""
    from workflows.argo.client.submission import config_text

    if any("\n" in override for override in args.overrides):
        raise InputError("an override has a line break in it: write it in a file for --config")
    file = config_file(args)
    preset = args.preset or (preset_of(file).stem if file else DEFAULT_PRESET)
    given = {"preset": preset, "config": config_text(file), "overrides": "\n".join(args.overrides)}
    return {name: value for name, value in given.items() if value}


def config_file(args: argparse.Namespace) -> Path | None:
    """Return the file of --config; without --preset too, the project's where there is one."""
    if args.config or args.preset is not None or not Path(PROJECT_FILE).is_file():
        file: Path | None = args.config
        return file
    return Path(PROJECT_FILE)
