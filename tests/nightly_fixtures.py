"""A tiny store that really ran up to pretraining, and what a night is made of."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from argosy.core.store.files import read_json, write_json
from argosy.evidence.results.items import read_items, write_items
from tests.servers import Handler, serving
from workflows.compose import compose
from workflows.lifecycle import lifecycle
from workflows.local.runner import run_plan
from workflows.local.shipping import Shipping
from workflows.plan import Plan, plan

SMALL = ("pretrain.exports=[1.0]", "evaluate.limit=8", "evaluate.suites={benchmark: final, heldout: final}")


def planned(store: Path, *overrides: str, last: str | None = None) -> Plan:
    """The tiny lifecycle as it would run in `store`."""
    return plan(lifecycle(compose("tiny", overrides=(*SMALL, *overrides))), store, None, last)


def train(store: Path, *overrides: str) -> None:
    """Run it up to pretraining, as `argosy run` does."""
    config = compose("tiny", overrides=(*SMALL, *overrides))
    wanted = plan(lifecycle(config), store, None, "pretrain")
    with Shipping(wanted, config.name, config) as shipping:
        assert run_plan(wanted, observers=[shipping], plain=True).exit_code == 0


def answer_all_right(evaluations: Sequence[str]) -> None:
    """Let every answer of finished evaluations be right (a reference that nobody reaches)."""
    for directory in evaluations:
        rows = read_items(directory)
        for row in rows:
            if "correct" in row:
                row |= {"correct": True, "chosen": row["gold"]}
        write_items(Path(directory), rows)
        record = read_json(Path(directory) / "outputs.json")  # which has the sizes of the step's files
        record["files"] = {name: (Path(directory) / name).stat().st_size for name in record["files"]}
        write_json(Path(directory) / "outputs.json", record)


@contextmanager
def webhook(answers: Sequence[int] = (200,)) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server: its URL and what it was sent. It answers with these statuses, the last one from then on."""
    heard: list[dict[str, Any]] = []

    class Hook(Handler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.body()))
            self.reply(answers[min(len(heard), len(answers)) - 1])

    with serving(Hook) as url:
        yield f"{url}/hook", heard
