"""`argosy judge`: which of two checkpoints answers better, by a judge that reads both answers."""

import argparse
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError
from workflows.cli.command import Command, add_store, as_typed, positive
from workflows.stored.last_run import checkpoint_directory, line_of_model


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", metavar="A", help="a checkpoint, or a .jsonl of answers")
    parser.add_argument("second", metavar="B", help="another one, whose answers it is compared with")
    parser.add_argument("--prompts", required=True, type=Path, metavar="FILE", help="JSONL of prompts: id, prompt")
    parser.add_argument("--judge", required=True, metavar="NAME|URL", help="a checkpoint, or an API up to and with /v1")
    parser.add_argument("--judge-model", default="", metavar="NAME", help="the model's name at that URL")
    parser.add_argument("--judge-tokens", type=positive, default=16, metavar="N",
                        help="tokens of its reply at that URL (default: 16); one that reasons first needs many")
    parser.add_argument("--labels", type=Path, metavar="FILE", help="JSONL of people's verdicts: id, winner")
    parser.add_argument("--max-new-tokens", type=positive, default=256, metavar="N",
                        help="tokens of an answer (default: 256)")
    parser.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto",
                        help="precision to compute in (default: the weights', or float32 where the CPU lacks theirs)")
    parser.add_argument("--limit", type=positive, metavar="N", help="ask the first N prompts alone")
    parser.add_argument("--again", action="store_true", help="ask once more where verdicts are missing")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    from argosy.core.store.step_files import read_outputs
    from argosy.evidence.judging.metrics import describe
    from workflows.local.runner import run_single

    with as_typed({"judge.prompts": "--prompts", "judge.labels": "--labels", "judge.first_answers": "A",
                   "judge.second_answers": "B"}):
        config = _config(args)
        line = line_of_model(args.store, Path(config.get("first", args.first)))  # the first checkpoint's
        title = f"judge-{Path(args.first).name}-{Path(args.second).name}"
        out = run_single("judge", config, args.store, {"line": line, "title": title}, again=args.again)
    outputs = read_outputs(out)
    print("\n".join(describe(outputs["judge"], outputs["metrics"], outputs["intervals"], outputs["faults"],
                             outputs["left_out"])))
    for why in outputs["failed"].values():
        print(f"without a verdict: {why}; {'run it again for these' if outputs['again'] else '--again asks once more'}")
    print(f"each verdict with both answers: {out / outputs['verdicts']}")
    return 0


def _config(args: argparse.Namespace) -> dict[str, Any]:
    config: dict[str, Any] = {"prompts": str(args.prompts), "max_new_tokens": args.max_new_tokens, "limit": args.limit,
                              "dtype": args.dtype}
    if args.labels:
        config["labels"] = str(args.labels)
    for side, name in (("first", args.first), ("second", args.second)):
        config |= {f"{side}_answers": name} if name.endswith(".jsonl") else _checkpoint(args.store, side, name)
    if "://" in args.judge:
        if not args.judge_model:
            raise InputError(f"--judge is the URL {args.judge}: say with --judge-model which model judges there")
        return config | {"judge_url": args.judge, "judge_model": args.judge_model, "judge_tokens": args.judge_tokens}
    return config | _checkpoint(args.store, "judge", args.judge)


def _checkpoint(store: Path, field: str, name: str) -> dict[str, str]:
    try:
        return {field: str(checkpoint_directory(store, name))}
    except InputError as error:
        raise InputError(f"{name!r} is neither a directory nor a checkpoint of the store: {error}") from None


COMMAND = Command("judge", "let a judge say which of two checkpoints answers better", 75, configure, run)
