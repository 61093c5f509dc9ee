"""`argosy serve`: checkpoints answer requests in OpenAI's protocol, and a page to try them."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from argosy.core.errors import InputError
from argosy.core.step.process import stop_on_signals
from workflows.cli.command import Command, add_store, checked, not_negative, positive, user_path
from workflows.cli.generate import opened


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoints", nargs="+", metavar="[NAME=]CHECKPOINT",
                        help="checkpoints' names, models:/MODEL@ALIAS, or directories; NAME: for requests")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    port = checked(int, "a whole number from 1 to 65535", lambda number: 1 <= number <= 65535)
    parser.add_argument("--port", type=port, default=8000, metavar="N", help="default: 8000")
    parser.add_argument("--engine", choices=("argosy", "vllm", "sglang"), default="argosy",
                        help="argosy: in this process, on CPU or GPU; vllm, sglang: their servers (default: argosy)")
    parser.add_argument("--engine-command", default="", metavar="COMMAND",
                        help="program of vllm or sglang, where it is not on the path")
    parser.add_argument("--engine-arguments", default="", metavar="ARGS",
                        help="more arguments for it, such as '--tensor-parallel-size 2'")
    parser.add_argument("--keys", type=user_path, metavar="FILE",
                        help="keys that requests need: NAME KEY, a line each, keys of 16 characters or more")
    parser.add_argument("--votes", type=user_path, metavar="DIR", help="folder for votes of the page")
    parser.add_argument("--max-tokens", type=positive, metavar="N", help="limit of an answer (default: the context)")
    parser.add_argument("--at-once", type=positive, metavar="N",
                        help="answers at a time of one checkpoint (default: 32)")
    parser.add_argument("--queue", type=not_negative, metavar="N",
                        help="answers that may wait beside them; the next get 429 (default: 256)")
    seconds = checked(float, "seconds from 0 on", lambda number: 0 <= number < float("inf"))
    parser.add_argument("--drain", type=seconds, default=60.0, metavar="S",
                        help="time for requests in flight once it is to end (default: 60)")
    parser.add_argument("--linger", type=seconds, default=0.0, metavar="S",
                        help="time for new requests after SIGTERM, while /health says 503 (default: 0)")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    from argosy.model.serve.metrics import Metrics
    from argosy.model.serve.server import Serving, listen, open_models, serve

    serving = Serving(args.host, args.port, args.engine, shlex.split(args.engine_command),
                      shlex.split(args.engine_arguments), args.max_tokens, args.at_once or 32,
                      256 if args.queue is None else args.queue, args.drain,
                      args.linger, _keys(args.keys) if args.keys else None, args.votes)
    _check(args)
    stop_on_signals()  # also while it loads: the first process of a container would pass SIGTERM over
    listening = listen(serving)
    dtype = "auto" if args.engine == "argosy" else "weights"  # the others settle it themselves
    found = {name: opened(args.store, checkpoint, dtype) for name, checkpoint in _named(args.checkpoints)}
    metrics = Metrics()
    models = open_models(found, serving, metrics, args.store / ".serve")
    about = {name: {"checkpoint": str(each.path), **each.label()} for name, (each, _) in found.items()}
    address = f"http://{f'[{args.host}]' if ':' in args.host else args.host}:{args.port}"
    print(f"{', '.join(found)}: {address}/v1 (OpenAI's protocol), {address}/ (a page to try it)", file=sys.stderr)
    serve(models, serving, metrics, about, listening)
    return 0


def _check(args: argparse.Namespace) -> None:
    names = [name for name, _ in _named(args.checkpoints)]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise InputError(f"CHECKPOINT {twice} is named twice")
    if args.votes and len(args.checkpoints) < 2:
        raise InputError("--votes needs two checkpoints to choose between: argosy serve A B --votes DIR")
    if args.engine == "argosy" and (args.engine_command or args.engine_arguments):
        raise InputError("--engine-command and --engine-arguments are for --engine vllm or sglang")
    limits = {"--max-tokens": args.max_tokens, "--at-once": args.at_once, "--queue": args.queue}
    if args.engine != "argosy" and (given := [name for name, value in limits.items() if value is not None]):
        raise InputError(f"{', '.join(given)}: {args.engine} has limits of its own; give them with --engine-arguments")


def _named(checkpoints: Sequence[str]) -> list[tuple[str, str]]:
    """Pair what requests call each checkpoint with its name here. A directory may have = in its name."""
    parts = [each.partition("=") for each in checkpoints]
    return [(name, right) if mark and right and "/" not in name else (name + mark + right,) * 2
            for name, mark, right in parts]


def _keys(file: Path) -> dict[str, str]:
    """Read names and keys. Raises InputError: a line is neither, or a name is there twice."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"--keys {file}: {error.strerror}") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        parts = line.split()
        if not parts or line.startswith("#"):
            continue
        if len(parts) != 2 or parts[0] in found or len(parts[1]) < 16:
            raise InputError(f"--keys {file}, line {number}: give NAME KEY, each name once, "
                             "keys of 16 characters or more")
        found[parts[0]] = parts[1]
    if not found:
        raise InputError(f"--keys {file} has no key: NAME KEY, a line each")
    return found


COMMAND = Command("serve", "answer requests in OpenAI's protocol, and a page to try a checkpoint", 64, configure, run)
