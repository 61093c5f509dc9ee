"""The command line `argosy`. A command is one module of this package with a `COMMAND`; nothing else lists it. The end
of its --help, where it has one, is a text file of its name beside it."""

import argparse
import os
import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import argosy
from argosy import __version__
from argosy.core.config.explain import nearest
from argosy.core.errors import ArgosyError, InputError, Stopped
from argosy.core.language import Catalogue, catalogue, language
from argosy.core.plugins import modules
from argosy.core.step.process import reader_may_leave
from argosy.corpus.text import display
from workflows.cli.command import Command

DESCRIPTION = """The whole life of a language model: clean, tokenize, pretrain, long context, anneal, SFT, reward model,
RLHF, evaluate, compare. Start with `argosy init`, then `argosy run`."""
EPILOG = """`argosy COMMAND --help` shows a command's options; docs/cli.md tells more.
Exit codes: 0 done; 1 something failed, or the run was stopped; 2 wrong usage or input."""

_OURS = (Path(argosy.__file__).parent, Path(__file__).parents[1])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Exits 0 (done), 1 (something failed) or 2 (wrong usage or input); ARGOSY_DEBUG=1 raises."""
    with reader_may_leave(), warnings.catch_warnings():
        warnings.showwarning = _Warner()
        try:
            args = _parse(argv)
        except InputError as error:
            print(f"argosy: {error}", file=sys.stderr)
            return error.exit_code
        return _run(args)


class _Warner:
    """A printer of warnings: ours as a sentence, another library's with its place. Each is said once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, message: Warning | str, category: type[Warning], filename: str, lineno: int,
                 file: TextIO | None = None, line: str | None = None) -> None:
        ours = any(Path(filename).is_relative_to(package) for package in _OURS)
        text = f"warning: {message}\n" if ours else warnings.formatwarning(message, category, filename, lineno, line)
        if text not in self._said:
            self._said.add(text)
            print(text, end="", file=file or sys.stderr)


def _run(args: argparse.Namespace) -> int:
    try:
        code: int = args.run(args)
        return code
    except ArgosyError as error:
        if os.environ.get("ARGOSY_DEBUG"):
            raise
        print(f"argosy {args.command}: {error}", file=sys.stderr)
        return error.exit_code
    except Stopped:
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 1
    except BrokenPipeError:
        raise
    except Exception as error:
        if os.environ.get("ARGOSY_DEBUG"):
            raise
        print(f"argosy {args.command}: {type(error).__name__}: {error} (ARGOSY_DEBUG=1 shows where)", file=sys.stderr)
        return 1


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse overrides after options too, which argparse alone refuses below a subcommand."""
    root = parser()
    _check_command(root, sys.argv[1:] if argv is None else argv)
    args, rest = root.parse_known_args(argv)
    options = [word for word in rest if word.startswith("-")]
    if options or (rest and not hasattr(args, "overrides")):
        root.error(f"{args.command} does not take {' '.join(options or rest)} (argosy {args.command} --help)")
    if rest:
        args.overrides += rest
    return args


def _check_command(root: argparse.ArgumentParser, argv: Sequence[str]) -> None:
    """Name the nearest command where one is misspelt, as stages and fields do."""
    names = [command.name for command in commands()]
    if argv and not argv[0].startswith("-") and argv[0] not in names:
        near = nearest(argv[0], names)
        hint = f"nearest: {', '.join(near)}; " if near else ""
        root.error(f"there is no command {argv[0]!r}; {hint}argosy --help lists all")


class Help(argparse.RawDescriptionHelpFormatter):
    """Help in the reader's language; a line is broken by the columns that its characters take."""

    def __init__(self, say: Catalogue, **options: Any) -> None:
        super().__init__(**options)
        self._say = say

    def add_usage(self, usage: str | None, actions: Iterable[argparse.Action], groups: Iterable[Any],
                  prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, self._say("usage: ") if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        super().start_section(heading and self._say(heading))

    def add_text(self, text: str | None) -> None:
        super().add_text(text and "\n\n".join(map(self._say, text.split("\n\n"))))

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help and self._say(action.help)

    def _split_lines(self, text: str, width: int) -> list[str]:
        if text.isascii():
            return super()._split_lines(text, width)
        lines = [""]
        for piece in re.findall(r"[（“]*(?:[!-~]+|.)[，。；：、）”]* *", text):
            lines += [""] if display.width(lines[-1] + piece.rstrip()) > width and lines[-1] else []
            lines[-1] += piece
        return [line.rstrip() for line in lines]


def parser() -> argparse.ArgumentParser:
    """Build the parser; its help is in the language that the environment names. Raises InputError: it names none."""
    shown = partial(Help, catalogue("help", language()))
    root = argparse.ArgumentParser("argosy", description=DESCRIPTION, epilog=EPILOG, formatter_class=shown)
    root.add_argument("--version", action="version", version=f"argosy {__version__}")
    choices = root.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in commands():
        sub = choices.add_parser(
            command.name, help=command.help, description=f"{command.help[0].upper()}{command.help[1:]}.",
            epilog="\n\n".join(filter(None, (_end(command.name), command.more))), formatter_class=shown)
        command.configure(sub)
        sub.set_defaults(run=command.run)
    return root


def _end(command: str) -> str:
    file = Path(__file__).with_name(f"{command}.txt")
    return file.read_text(encoding="utf-8").rstrip("\n") if file.is_file() else ""


def commands() -> list[Command]:
    """Find every command of this package, in the order in which a person meets them."""
    found = [module.COMMAND for module in modules(sys.modules[__name__]).values() if hasattr(module, "COMMAND")]
    return sorted(found, key=lambda command: command.order)
