"""`argosy chat`: talk with a checkpoint in its chat template."""

import argparse
import sys

from argosy.core.errors import InputError
from workflows.cli.command import Command
from workflows.cli.generate import add_sampling, open_model, say


def configure(parser: argparse.ArgumentParser) -> None:
    add_sampling(parser, temperature=0.7)
    parser.add_argument("--system", default="", metavar="TEXT", help="system message that conversations begin with")


def run(args: argparse.Namespace) -> int:
    model = open_model(args, chat=True)
    if not model.tokenizer.chat_template:
        raise InputError(f"{args.checkpoint} has no chat template: 'argosy generate {args.checkpoint} PROMPT' "
                         "continues text")
    first = [{"role": "system", "content": args.system}] if args.system else []
    turns: list[dict[str, str]] = []
    answers = 0
    while (line := _line()) is not None and line != "/quit":
        if line == "/new":
            turns = []
            print("(a new conversation)", file=sys.stderr)
        elif line:
            turns.append({"role": "user", "content": line})
            left_out = 0
            room = model.max_length - args.max_tokens
            while len(turns) > 1 and len(model.encode([model.render(first + turns)])[0]) > room:
                turns, left_out = turns[2:], left_out + 2
            if left_out:
                print(f"({left_out} turns left out: the context has {model.max_length} tokens)", file=sys.stderr)
            try:
                answer = say(model, model.render(first + turns), args, answers, chat=True)
            except InputError as error:  # this turn alone is too long
                print(f"({error})", file=sys.stderr)
                turns.pop()
            else:
                turns.append({"role": "assistant", "content": answer})
                answers += 1
    return 0


def _line() -> str | None:
    try:
        return input("> " if sys.stdin.isatty() else "").strip()
    except EOFError:
        return None


COMMAND = Command("chat", "talk with a checkpoint in its chat template", 62, configure, run)
