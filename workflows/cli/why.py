"""`argosy why`: show what a result was made from, back to configs and input files."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from argosy.corpus.text.display import duration
from workflows.cli.command import Command, add_store
from workflows.plan import state_of
from workflows.stored.last_run import result_directory
from workflows.stored.lineage import Ancestor, Lineage, step_directory

MANY = 4  # parts of one name that are shown one by one


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NODE|CHECKPOINT|DIR", help="result, such as rlhf or pretrain/p050")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    directory = step_directory(result_directory(args.store, args.name))
    seen: set[Path] = set()
    for line in _tree(Lineage(directory.parent).of(directory), seen):
        print(line)
    return 0


def _tree(ancestor: Ancestor, seen: set[Path], indent: str = "", role: str = "") -> Iterator[str]:
    again = ancestor.directory in seen
    seen.add(ancestor.directory)
    yield f"{indent}{role}{ancestor.name}  {ancestor.directory}{'  (see above)' if again else _state(ancestor)}"
    if again:
        return
    below = indent + "   "
    for key, value in ancestor.settings():
        text = json.dumps(value, ensure_ascii=False)
        yield f"{below}  {key} = {text if len(text) <= 100 else text[:97] + '...'}"
    for file in ancestor.files:
        yield f"{below}  {file.field}: {file.path}  sha256 {file.identity.rpartition(':')[2][:12]}  {file.state}"
    for name, found in ancestor.upstream.items():
        for upstream in found[:MANY]:
            if isinstance(upstream, str):
                yield f"{below}<- {name}: {upstream} is not in this store"
            else:
                yield from _tree(upstream, seen, below, f"<- {name}: ")
        if len(found) > MANY:
            yield f"{below}<- {name}: and {len(found) - MANY} more"


def _state(ancestor: Ancestor) -> str:
    made = ancestor.made_from
    parts = [f"step {made['step']} v{made['version']}"]
    if not ancestor.done:
        state = state_of(str(ancestor.directory))
        parts.append(f"NOT DONE ({state.reason})" if state else "NOT DONE")
    if ancestor.run.get("seconds"):
        parts.append(duration(ancestor.run["seconds"]))
    return "  " + ", ".join(parts)


COMMAND = Command("why", "show what a result was made from", 80, configure, run)
