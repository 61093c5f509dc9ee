"""The process of a step: `python -m steps.NAME --config JSON|@FILE --out DIR`, or `--batch FILE` for several.

Exit codes: 0 done, 1 failed, 2 wrong input, 130 and 143 stopped by SIGINT and SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from argosy.config import Config
from argosy.environment import die_with_parent, limit_threads, stop_on_signals
from argosy.errors import ArgosyError, InputError, Stopped
from argosy.pipes import reader_may_leave
from argosy.step import Step
from argosy.step_events import Events, output_to
from argosy.step_files import LOG
from argosy.step_run import Item, Outcome, run_item
from argosy.storage import make_directory, read_json


def step_main(step: Step[Any], argv: Sequence[str] | None = None) -> NoReturn:
    """Parse `argv`, run what it names, exit."""
    die_with_parent()
    limit_threads()
    stop_on_signals()
    with reader_may_leave():
        arguments = _arguments(step, argv)
    try:
        code = _run_batch(step, arguments.batch) if arguments.batch else _run_single(step, arguments)
    except ArgosyError as error:
        _complain(step, str(error))
        code = error.exit_code
    except Stopped as stopped:
        _complain(step, str(stopped))
        code = stopped.exit_code
    sys.exit(code)


def _arguments(step: Step[Any], argv: Sequence[str] | None) -> argparse.Namespace:
    from argosy.step_help import HelpAction

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

    def work() -> Outcome:
        text = arguments.config
        raw = read_json(Path(text[1:])) if text.startswith("@") else _parse(text, "--config")
        return run_item(step, Item(parse_config(step, raw), out, _parse(arguments.node, "--node")), say=_say)

    with Events() as events:
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
    with Events() as events:
        codes = [_run_entry(step, entry, events, wait=False) for entry in entries]
        held = [entry for entry, code in zip(entries, codes, strict=True) if code is None]
        codes += [_run_entry(step, entry, events, wait=True) for entry in held]
    return max((code or 0 for code in codes), default=0)


def _run_entry(step: Step[Any], entry: dict[str, Any], events: Events, *, wait: bool) -> int | None:
    out = Path(entry["out"]).absolute()

    def work() -> Outcome:
        make_directory(out)
        with output_to(out / LOG):
            item = Item(parse_config(step, entry["config"]), out, entry.get("node", {}))
            outcome = run_item(step, item, wait=wait, say=_say)
            _say(f"{out}: {outcome.message}")
            return outcome

    outcome = events.run(out, work)
    if outcome.code is not None and not events.heard:
        _say(f"{out}: {outcome.message}")
    return outcome.code


def parse_config(step: Step[Any], raw: Any) -> Config:
    """Validate a step's config.

    Raises:
        InputError: with a line for each field that is wrong.
    """
    if not isinstance(raw, dict):
        raise InputError(f"the config of {step.name} is {type(raw).__name__}, allowed: a JSON object")
    try:
        config: Config = step.config.model_validate(raw)
    except ValidationError as error:
        from argosy.config_explain import config_error

        raise config_error(step.config, error) from None
    return config


def _parse(text: str, option: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{option} is not valid JSON: {error}") from None


def _say(text: str) -> None:
    print(text, flush=True)


def _complain(step: Step[Any], text: str) -> None:
    print(f"steps.{step.name}: {text}", file=sys.stderr, flush=True)
