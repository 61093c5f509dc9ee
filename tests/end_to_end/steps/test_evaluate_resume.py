"""Evaluations that are killed, in a real process, and those of several processes make the undisturbed ones' bytes."""

import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from argosy.core.step.runner import Item, run_item
from argosy.evidence.results.items import read_items
from steps.evaluate import STEP, EvaluateConfig
from tests.evaluation_fixtures import make_items, save_checkpoint, write_items
from tests.warm import SERVER

SUITE = """\
benchmarks:
  tasks: {facts: [benchmark/en.jsonl, benchmark/zh.jsonl]}
  variants: {plain: , cloze: , permuted: {permuted: {k: 4}}, written: generative}
  memorisation: {k: 2}
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("store")
    save_checkpoint(root / "model")
    for lang in ("en", "zh"):
        write_items(root / f"data/benchmark/{lang}.jsonl", [i for i in make_items(24) if i.lang == lang])
    (root / "suite.yaml").write_text(SUITE)
    return root


def run(config: dict[str, Any], out: Path) -> None:
    """The step, as its process runs it."""
    outcome = run_item(STEP, Item(EvaluateConfig.model_validate(config), out))
    assert outcome.code == 0, outcome.message


def start(store: Path, out: Path, **fields: Any) -> BaseProcess:
    """In a process of its own; with small batches, so that there is much to be killed between."""
    config = {"checkpoint": str(store / "model"), "data": str(store / "data"), "suite_file": str(store / "suite.yaml"),
              "batch_tokens": 300, **fields}  # fmt: skip
    process = SERVER.Process(target=run, args=(config, out))
    process.start()
    return process


def made(process: BaseProcess, out: Path) -> tuple[bytes, bytes]:
    process.join()
    assert process.exitcode == 0
    return (out / "items.parquet").read_bytes(), (out / "results.json").read_bytes()


@pytest.fixture(scope="module")
def undisturbed(store: Path) -> tuple[bytes, bytes]:
    return made(start(store, store / "undisturbed"), store / "undisturbed")


def test_killed_and_resumed_it_is_the_same_bytes(store: Path, undisturbed: tuple[bytes, bytes], tmp_path: Path) -> None:
    """Killed after some more batches each time, until it may end."""
    rng, out, batches = Random(5), tmp_path / "out", [0]
    for _ in range(4):
        process = start(store, out)
        until = batches[-1] + rng.randrange(1, 9)
        while process.is_alive() and _batches(out) < until:
            time.sleep(0.002)
        process.kill()
        process.join()
        assert process.exitcode == -9, "it ended before it was killed"
        batches.append(_batches(out))
    assert batches == sorted(set(batches))  # each time it got further
    with open(next((out / "state/scores").glob("*.scores")), "a", encoding="utf-8") as file:
        file.write('{"key": "cut o')  # as a kill in the middle of a line leaves it
    assert made(start(store, out), out) == undisturbed
    rows = read_items(out)
    assert len({(row["variant"], row["id"]) for row in rows}) == len(rows) == 24 * (1 + 1 + 4 + 1 + 1)
    assert not (out / "state").exists()


def test_several_processes_make_the_same_bytes(store: Path, undisturbed: tuple[bytes, bytes], tmp_path: Path) -> None:
    assert made(start(store, tmp_path / "out", processes=2), tmp_path / "out") == undisturbed


def _batches(out: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in (out / "state/scores").glob("*.scores"))
