"""One step outside a graph, in the store, with what it logs sent to MLflow: for commands that ask for one thing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from argosy.errors import InputError, StepError
from argosy.provenance import provenance_of
from argosy.step_events import output_to
from argosy.step_files import LOG, read_done, to_do_again
from argosy.step_main import parse_config
from argosy.step_run import Item, run_item
from argosy.storage import make_directory
from workflows.node import definition
from workflows.sender import Sender


def run_single(step: str, config: dict[str, Any], store: Path, *, line: str = "", again: bool = False) -> Path:
    """Run `step` in `<store>/<step>-<digest>`, where what is done already is not done again; returns that directory.

    Args:
        line: model line that its MLflow run belongs to; "" keeps the environment's.
        again: do it again where it is done but names what `failed`, also what would not pass by itself or was tried
            often enough; without, what may pass is tried again, as in a run.

    Raises:
        InputError: the config or what it names is wrong.
        StepError: the step failed.
    """
    defined = definition(step)
    item_config = parse_config(defined, config)
    out = store.absolute() / f"{step}-{provenance_of(defined, item_config, {})['digest']}"
    done = read_done(out)
    failed = list(done["outputs"].get("failed", ())) if done and again else to_do_again(done)
    if failed:
        print(f"{', '.join(failed)} failed last time: tried again", flush=True)
    if line:
        os.environ["ARGOSY_LINE"] = line
    sender = Sender(["--node", str(out)])
    sender.start()
    try:
        make_directory(out)
        with output_to(out / LOG):
            outcome = run_item(defined, Item(item_config, out), again=again and bool(failed))
    finally:
        sender.close()
    if outcome.code:
        kind = InputError if outcome.code == InputError.exit_code else StepError
        raise kind(f"{outcome.message} (log: {out / LOG})" if outcome.ran else outcome.message)
    if failed and outcome.message != "done":
        print(f"{outcome.message} (log: {out / LOG})", flush=True)
    return out
