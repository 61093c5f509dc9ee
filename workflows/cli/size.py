"""`argosy size`: what training a model takes: parameters, memory, layouts over GPUs, time and cost."""

import argparse
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.core.config.explain import likely
from argosy.core.errors import InputError
from argosy.core.store.files import json_text
from argosy.planning.report import short
from workflows.cli.command import Command, checked, positive, user_path
from workflows.cli.options import OVERRIDES, PHASES, add_config, config_file, load_config, trained_model
from workflows.compose import DEFAULT_PRESET, compose
from workflows.rules import model_of

if TYPE_CHECKING:
    from argosy.model.train.config import TrainConfig
    from argosy.model.train.sizing.architecture import Architecture
    from argosy.model.train.sizing.gpus import Gpu
    from argosy.model.train.sizing.job import Job
    from argosy.model.train.sizing.layouts import Proposals
    from workflows.lifecycle import LifecycleConfig


def configure(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    directory = checked(user_path, "a directory that is there", Path.is_dir)
    parser.add_argument("--stage", metavar="STAGE",
                        help=f"{', '.join(PHASES)} (default: the one that overrides name, else pretrain)")
    parser.add_argument("--model-dir", type=directory, metavar="DIR",
                        help="a model of Hugging Face, whose config.json is read instead of pretrain.model")
    parser.add_argument("--gpu", default="h100", metavar="TYPE", help="such as h100, a100, h200 (default: h100)")
    parser.add_argument("--gpus", type=positive, default=8, metavar="N", help="GPUs of a node (default: 8)")
    parser.add_argument("--nodes", type=positive, default=1, metavar="N", help="nodes (default: 1)")
    share = checked(float, "a number above 0, up to 1", lambda number: 0 < number <= 1)
    parser.add_argument("--mfu", type=share, metavar="X", help="share of the peak FLOPs (default: 0.4)")
    dollars = checked(float, "dollars, 0 or more", lambda number: 0 <= number < float("inf"))
    parser.add_argument("--price", type=dollars, metavar="USD", help="of a GPU and hour (default: by type)")
    parser.add_argument("--serve", type=positive, metavar="TOKENS",
                        help="what answering takes, with so many tokens of prompt and answer, and not training")
    parser.add_argument("--json", action="store_true", help="all numbers as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the tables. Raises InputError: no such stage or GPU."""
    from argosy.model.train.sizing.architecture import open_architecture
    from argosy.model.train.sizing.gpus import MFU, find_gpu
    from argosy.model.train.sizing.job import read_job, read_layout
    from argosy.model.train.sizing.layouts import Proposals, fit, propose
    from argosy.planning.report import Question, as_data, in_words

    there = open_architecture(args.model_dir) if args.model_dir else None
    named = {text.partition("=")[0].partition(".")[0] for text in args.overrides} & {*PHASES}
    phase = args.stage or (named.pop() if len(named) == 1 else "pretrain")
    engine = _engine_named(args, phase)
    with model_of(there.shapes if there else None):
        config = load_config(args)
    model = there or trained_model(config)
    if args.serve:
        return _serve(args, model)
    args.stage = phase
    stage = _stage(args, config, model).model_dump()
    job, gpu, own = read_job(stage, model), find_gpu(args.gpu), stage["processes"]
    _tell(args, job, gpu)
    gpus = own if own > 1 else args.gpus * args.nodes
    price = gpu.price if args.price is None else args.price
    asked = Question(gpu, gpus, min(gpus, args.gpus), args.mfu or MFU, price)
    if as_set := own > 1 or engine:
        one = fit(job, read_layout(stage, gpus), gpu.usable)
        found = Proposals((one,), ()) if one.fits else Proposals((), (one,))
    else:
        found = propose(job, gpu.usable, gpus, args.gpus)
    if args.json:
        print(json_text({"stage": args.stage, **as_data(job, asked, found)}, indent=1, ensure_ascii=True))
    else:
        print(f"{args.stage}: " + in_words(job, asked, found, {} if as_set else _hints(args, model, found)))
    return 0


def _tell(args: argparse.Namespace, job: "Job", gpu: "Gpu") -> None:
    """Say what the figures take for granted. Raises InputError: the GPU does not compute in 8 bits."""
    from argosy.model.train.sizing.gpus import WITHOUT_FP8

    if job.fp8 and gpu.name in WITHOUT_FP8:
        raise InputError(f"{args.stage}.fp8=true needs a GPU of compute capability 8.9 or more, and --gpu {gpu.name} "
                         "is of less: set fp8=false, or take a newer GPU")
    if 0 < job.model.positions < job.sequence_length:
        print(f"{job.model.kind} is for {job.model.positions:,} positions (max_position_embeddings), and {args.stage}."
              f"sequence_length is {job.sequence_length:,}: these are figures of a longer model", file=sys.stderr)
    if args.model_dir and not args.preset and config_file(args) is None:
        print(f"all but the model and what you name is of the preset {DEFAULT_PRESET}: {job.optimizer}, "
              f"{job.precision}", file=sys.stderr)


def _engine_named(args: argparse.Namespace, phase: str) -> bool:
    """Tell whether the command line names an engine for a phase; without processes there, it has those of the GPUs."""
    fields = dict(text.partition("=")[::2] for text in args.overrides)
    if not any(name.startswith(f"{phase}.engine") and value != "auto" for name, value in fields.items()):
        return False
    if f"{phase}.processes" not in fields:
        args.overrides = [*args.overrides, f"{phase}.processes={args.gpus * args.nodes}", *_nodes(args, phase)]
    return True


def _nodes(args: argparse.Namespace, phase: str) -> list[str]:
    return [f"resources.{phase}.nodes={args.nodes}"] if args.nodes > 1 else []


def _serve(args: argparse.Namespace, model: "Architecture") -> int:
    from argosy.model.train.sizing.gpus import find_gpu
    from argosy.model.train.sizing.inference import serving, serving_in_words

    of_training = {"--stage": args.stage, "--mfu": args.mfu, "--price": args.price, "--nodes": args.nodes - 1 or None}
    if given := [name for name, value in of_training.items() if value is not None]:
        raise InputError(f"{' and '.join(given)}: of training, and --serve is of answering, on the GPUs of one node: "
                         "leave one of them out")
    if 0 < model.positions < args.serve:
        print(f"{model.kind} is for {model.positions:,} positions (max_position_embeddings), and --serve is "
              f"{args.serve:,}: these are figures of a model that is made longer", file=sys.stderr)
    asked = model, find_gpu(args.gpu), args.serve, args.gpus
    print(json_text([asdict(each) for each in serving(*asked)], indent=1) if args.json else serving_in_words(*asked))
    return 0


def _stage(args: argparse.Namespace, config: "LifecycleConfig", model: "Architecture") -> "TrainConfig":
    """Find the stage's config. Raises InputError: there is no such stage, the config leaves it out, or plan refuses
    what it keeps of the model's weights, or how it divides them."""
    if args.stage not in PHASES:
        raise InputError(f"--stage is {args.stage!r}, which is no phase that is sized; {likely(args.stage, PHASES)}")
    stage: TrainConfig | None = getattr(config, args.stage)
    if stage is None:
        raise InputError(f"--stage is {args.stage!r}, which the config leaves out: take another stage")
    new = not (config.start or args.model_dir or args.stage != "pretrain")
    if problem := stage.phase_problem(new=new) or stage.shape_problem(model.shapes):
        raise InputError(f"{args.stage}.{problem}")
    if stage.lora or stage.frozen:
        print(f"{args.stage} keeps weights (lora, frozen), and these figures count all {short(model.parameters())} "
              "parameters as trained, and no adapters", file=sys.stderr)
    if args.stage not in (chosen := config.chosen()):
        trained = ", ".join(name for name in (*PHASES, *config.default_tree()) if name in chosen) or "nothing"
        print(f"the config trains {trained}, and no {args.stage}: these are figures of {args.stage} if it did, as "
              f"argosy size knows {', '.join(PHASES)} alone", file=sys.stderr)
    return stage


def _hints(args: argparse.Namespace, model: "Architecture", found: "Proposals") -> dict[str, str]:
    """Say how each layout that fits is set, where the config of the stage has the fields for it."""
    from argosy.model.train.sizing.layouts import fields, flow

    hints = {}
    for each in found.fitting:
        values = {**(fields(each.layout) or {}), "micro_batch_size": each.job.micro_batch_size}
        words = [f"{args.stage}.{name}={flow(value)}" for name, value in values.items()]
        words += _nodes(args, args.stage)
        hints[each.name] = shlex.join(words)
        try:
            with model_of(model.shapes):
                compose(args.preset, config_file(args), [*args.overrides, *words])
        except InputError as error:
            hints[each.name] += f", but: {str(error).splitlines()[-1].strip()}"
    return hints


COMMAND = Command("size", "what training or serving a model takes: memory, layouts", 22, configure, run, OVERRIDES)
