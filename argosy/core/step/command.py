"""The command line of a step: `python -m steps.NAME --config JSON|@FILE --out DIR`, or `--batch FILE` for several.

Exit codes: 0 done, 1 failed, 2 wrong input, 130 and 143 stopped by SIGINT and SIGTERM."""

import argparse
import ast
import inspect
import itertools
import json
import os
import sys
import textwrap
import types
import typing
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from argosy.core.config.explain import validated
from argosy.core.config.schema import Config, Role, role_of
from argosy.core.errors import ArgosyError, InputError, Stopped
from argosy.core.step import process
from argosy.core.step.contract import Step
from argosy.core.step.machine import usable_gpus
from argosy.core.step.ranks import RANKS
from argosy.core.step.ranks.launcher import JOIN
from argosy.core.step.ranks.member import join
from argosy.core.step.ranks.rank import refuse_foreign_launcher, run_rank
from argosy.core.step.runner import Item, run_item
from argosy.core.store.files import make_directory, read_json
from argosy.core.store.step_files import LOG

_say = partial(print, flush=True)
_ROLES = {
    Role.UPSTREAM: "a directory that an upstream step wrote",
    Role.EXTERNAL: "a path from outside; its bytes count as input",
    Role.RUNTIME: "does not count in the digest"}


class HelpAction(argparse.Action):
    """An option that prints the step's docstring, the options and the config's fields, and exits 0."""

    def __init__(self, option_strings: list[str], dest: str, step: Step[Any], help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)
        self._step = step

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        document = inspect.getdoc(sys.modules[self._step.run.__module__]) or inspect.getdoc(self._step.run) or ""
        print(document, parser.format_help(), "config (JSON):", sep="\n\n")
        for line in describe_fields(self._step.config):
            print(line)
        parser.exit()


def describe_fields(cls: type[Config], indent: str = "  ") -> Iterator[str]:
    """Yield a line for each field, `name: type = default`, and what it means below; nested configs indented."""
    literals = field_descriptions(cls)
    for name, field in cls.model_fields.items():
        nested = next(_configs(field.annotation), None)
        yield f"{indent}{name}: {_type_text(field.annotation)}{_default(field, nested)}"
        notes = [field.description or literals.get(name, ""), _ROLES.get(role_of(field), "")]  # type: ignore[arg-type]
        if text := "; ".join(note.strip().rstrip(".") for note in notes if note):
            yield textwrap.fill(text, 110, initial_indent=indent + "    ", subsequent_indent=indent + "    ")
        if nested is not None:
            yield from describe_fields(nested, indent + "  ")


def _default(field: FieldInfo, nested: type[Config] | None) -> str:
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return "  (required)"
    if nested is not None and isinstance(value, BaseModel):
        return ""  # its own fields are listed below
    return f" = {json.dumps(value, ensure_ascii=False, default=str)}"


def _configs(annotation: Any) -> Iterator[type[Config]]:
    if isinstance(annotation, type) and issubclass(annotation, Config):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _configs(argument)


def _type_text(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(_type_text(argument) for argument in arguments)
    if origin is typing.Literal:
        return " | ".join(json.dumps(value) for value in arguments)
    if origin is typing.Annotated:
        return _type_text(arguments[0])
    if origin is not None:
        inner = ", ".join("..." if a is Ellipsis else _type_text(a) for a in arguments)
        return f"{origin.__name__}[{inner}]"
    return getattr(annotation, "__name__", str(annotation)).replace("NoneType", "null")


def field_descriptions(cls: type[Config]) -> dict[str, str]:
    """Read the string literals below the fields, as pydantic does with `use_attribute_docstrings`; but only for help,
    since reading and parsing the source takes two milliseconds a class."""
    found: dict[str, str] = {}
    for base in reversed([c for c in cls.__mro__ if issubclass(c, Config) and c is not Config]):
        if "joined_from" in vars(base):  # it was made, and has no source
            for part in base.joined_from:
                found |= field_descriptions(part)
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body  # type: ignore[attr-defined]
        for statement, below in itertools.pairwise(body):
            if isinstance(statement, ast.AnnAssign) and isinstance(below, ast.Expr):
                found[ast.unparse(statement.target)] = " ".join(str(ast.literal_eval(below.value)).split())
    return found


def main(step: Step[Any], argv: Sequence[str] | None = None) -> NoReturn:
    """Run the process of a step, or a rank of one: what `argv` (or the environment) names; then exit."""
    process.die_with_parent()
    process.stop_on_signals()
    if folder := os.environ.pop(RANKS, ""):
        process.limit_threads()
        try:
            sys.exit(run_rank(step, Path(folder)))
        except Stopped as stopped:  # wherever the signal came
            sys.exit(stopped.exit_code)
    record = os.environ.pop(JOIN, "")
    with process.reader_may_leave():
        arguments = argparse.Namespace() if record else _arguments(step, argv)
    try:
        process.limit_threads()
        if record:
            sys.exit(join(step.name, Path(record)))
        refuse_foreign_launcher()
        code = _run_batch(step, arguments.batch) if arguments.batch else _run_single(step, arguments)
    except ArgosyError as error:
        _complain(step, str(error))
        code = error.exit_code
    except Stopped as stopped:
        _complain(step, str(stopped))
        code = stopped.exit_code
    sys.exit(code)


def _arguments(step: Step[Any], argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(f"python -m steps.{step.name}", add_help=False)
    parser.add_argument("-h", "--help", action=HelpAction, step=step, help="show every field of the config and exit")
    parser.add_argument("--config", default="{}", metavar="JSON|@FILE", help="the config, or the file that holds it")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the only directory that is written")
    parser.add_argument("--node", default="{}", metavar="JSON",
                        help="name, part and identities from the graph; worked out from the config without it")
    parser.add_argument("--batch", type=Path, metavar="FILE",
                        help='instead: a JSON list of {"config", "out", "node"}, run one after the other')
    arguments = parser.parse_args(argv)
    if not arguments.batch and not arguments.out:
        parser.error("one of --out DIR and --batch FILE is needed")
    return arguments


def _run_single(step: Step[Any], arguments: argparse.Namespace) -> int:
    out = arguments.out.absolute()

    def work() -> process.Outcome:
        text = arguments.config
        raw = read_json(Path(text[1:])) if text.startswith("@") else _parse(text, "--config")
        return run_item(step, Item(parse_config(step, raw), out, _parse(arguments.node, "--node")), say=_say)

    with process.Events() as events:
        outcome = events.run(out, work)
    if outcome.code:
        _complain(step, f"{outcome.message} (log: {out / LOG})" if outcome.ran else outcome.message)
    else:
        _say(f"{out}: {outcome.message}")
    return outcome.code or 0


def _run_batch(step: Step[Any], path: Path) -> int:
    """Run each item; first those that nobody else holds, then wait for the others. Returns the worst exit code."""
    entries = read_json(path)
    if not isinstance(entries, list) or not all(isinstance(e, dict) and {"config", "out"} <= e.keys() for e in entries):
        raise InputError(f'{path} must hold a JSON list of {{"config", "out"}}')
    with process.Events() as events:
        codes = [_run_entry(step, entry, events, wait=False) for entry in entries]
        held = [entry for entry, code in zip(entries, codes, strict=True) if code is None]
        codes += [_run_entry(step, entry, events, wait=True) for entry in held]
    return max((code or 0 for code in codes), default=0)


def _run_entry(step: Step[Any], entry: dict[str, Any], events: process.Events, *, wait: bool) -> int | None:
    out = Path(entry["out"]).absolute()

    def work() -> process.Outcome:
        make_directory(out)
        with process.output_to(out / LOG):
            item = Item(parse_config(step, entry["config"]), out, entry.get("node", {}))
            outcome = run_item(step, item, wait=wait, say=_say)
            _say(f"{out}: {outcome.message}")
            return outcome

    outcome = events.run(out, work)
    if outcome.code is not None and not events.has_runner:
        _say(f"{out}: {outcome.message}")
    return outcome.code


def parse_config(step: Step[Any], raw: Any) -> Config:
    """Validate a step's config. Raises InputError, with a line for each field that is wrong."""
    if not isinstance(raw, dict):
        raise InputError(f"the config of {step.name} is {type(raw).__name__}, allowed: a JSON object")
    config: Config = validated(step.config, raw)
    return config.settled(gpu=bool(usable_gpus()))


def _parse(text: str, option: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{option} is not valid JSON: {error}") from None


def _complain(step: Step[Any], text: str) -> None:
    print(f"steps.{step.name}: {text}", file=sys.stderr, flush=True)
