"""Progress of a step: held-out evaluations, references, rollouts and exports are part of it, and the view says so."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from argosy.core.step.contract import Progress, counted
from steps import long_context, pretrain
from tests.training_fixtures import make_data, run_here
from workflows.local.view import progress_text, share

MODEL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2,
         "num_key_value_heads": 1, "max_position_embeddings": 32}
PRETRAINING: dict[str, Any] = {"sequence_length": 32, "global_batch_size": 4, "tokens": 4 * 128, "heldout_points": 2,
                               "dtype": "float32"}
BEFORE, AFTER, EXPORT = "held-out before training", "held-out after training", "export"
@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """All that progress.json was, as if each write were due."""
    records: list[dict[str, Any]] = []
    monkeypatch.setattr("argosy.core.step.contract._INTERVAL_S", 0.0)
    monkeypatch.setattr("argosy.core.step.contract.write_json", lambda path, record, durable: records.append(record))
    return records


def parts(records: list[dict[str, Any]]) -> dict[float, tuple[str, bool]]:
    """The parts by when they began: the name, and whether the view showed it in its middle; of no record it says that
    the step is done."""
    found: dict[float, tuple[str, bool]] = {}
    for record in records:
        text, part = progress_text(record), record["part"]
        assert (share(record) or 0.0) < 1
        assert "100 %" not in text
        if part is None:
            assert ("ETA" not in text) or record["done"] < record["total"]
            continue
        middle = 0 < part["done"] < part["total"]
        shown = f"{part['name']}:  {100 * part['done'] / (part['total'] or 1):3.0f} %  {part['done']:.0f}/"
        assert (shown if middle else f"{part['name']}:") in text
        assert text.count("ETA") <= middle + (record["done"] < record["total"])
        found[part["began"]] = part["name"], middle or found.get(part["began"], ("", False))[1]
    return found


def test_evaluations_of_pretraining_are_part_of_the_step(written: list[dict[str, Any]], tmp_path: Path) -> None:
    make_data(tmp_path, {"en": 40, "zh": 40}, words=150)
    files, progress = {"tokenized": tmp_path, "tokenizer": tmp_path}, tmp_path / "progress.json"
    run_here(pretrain, tmp_path / "first", progress=Progress(progress), model=MODEL, **files, **PRETRAINING)
    loss, export = ("held-out loss", True), (EXPORT, False)
    assert list(parts(written).values()) == [loss, loss, loss, export]
    between = next(each for each in written if each["part"] and 0 < each["done"] < each["total"])
    assert progress_text(between).startswith(" 50 %  256/512 tokens")
    assert share(between) == 0.5
    written.clear()
    run_here(long_context, tmp_path / "second", progress=Progress(progress), checkpoint=tmp_path / "first",
             tokenized=tmp_path, **{**PRETRAINING, "sequence_length": 64, "heldout_points": 1})
    positions = ("held-out loss by position", False)
    assert list(parts(written).values()) == [positions, loss, loss, export, positions]


def test_a_part_has_its_own_rate_and_a_finer_count_adds_to_it(
    written: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr("argosy.core.step.contract.time",
                        SimpleNamespace(monotonic=lambda: clock.now, time=lambda: clock.now))
    progress, texts = Progress(tmp_path / "progress.json"), []
    clock.now += 50  # a model is loaded
    progress.update(0, 4, "steps")
    with progress.during("held-out"):
        for batch in counted(["abcd", "efgh"], 8, "answers"):
            for _ in counted(batch, len(batch), "answers"):
                clock.now += 2
                texts.append(progress_text(written[-1]))
    progress.update(1, 4, "steps")
    assert texts[1] == "  0 %  0/4 steps  held-out:   12 %  1/8 answers  0.5/s  ETA 14s"
    assert texts[-1] == "  0 %  0/4 steps  held-out:   88 %  7/8 answers  0.5/s  ETA 2.0s"
    assert progress_text(written[-1]) == " 25 %  1/4 steps  0.062/s  ETA 48s"  # not slower for the loading
    progress.update(4, 4, "steps")
    assert progress_text(written[-1]) == "4/4 steps  finishing"
