"""`argosy metrics` on a made-up store: what it says of each metric, and what it refuses."""

import json
from pathlib import Path

import pytest

from argosy.core.statistics.contamination import Contamination
from argosy.core.store.files import write_json
from argosy.core.store.step_files import read_done
from argosy.evidence.compare.checkpoints import Checkpoint, read_checkpoints
from argosy.evidence.compare.test import Side
from argosy.evidence.compare.watch import watchlist
from argosy.evidence.results.contamination import Seen
from argosy.evidence.results.values import Value
from tests.command_line import Argosy
from tests.report_fixtures import HONEST, make_store


def test_metrics_of_a_store(tmp_path: Path, argosy: Argosy) -> None:
    make_store(tmp_path, HONEST)
    [found] = json.loads(argosy("metrics", "--store", str(tmp_path), "bench/facts/cloze/acc", "--json").out)
    assert (found["verdict"], found["chance"], found["checkpoints"]) == ("watch", 0.25, len(HONEST))
    assert found["found"]["ratio"] == pytest.approx(found["found"]["signal"] / found["found"]["noise"])
    assert argosy("metrics", "--store", str(tmp_path), "--watch", "--snr", "1e9").out.strip() == ""
    said = argosy("metrics", "--store", str(tmp_path), "bench/nothing/*", code=2).err
    assert "no metric is like bench/nothing/*" in said
    assert "no finished evaluation" in argosy("metrics", "--store", str(tmp_path / "empty"), code=2).err


def test_the_table_says_of_which_checkpoint_the_last_value_is(tmp_path: Path, argosy: Argosy) -> None:
    store = make_store(tmp_path, HONEST)
    checkpoints = read_checkpoints([Path(path) for path in store.checkpoints], store.evaluations)
    found = {each.metric: each for each in watchlist(checkpoints)}
    most = max(checkpoints.finals, key=lambda c: c.tokens)
    heldout = found["heldout/bpb/code"]  # of a final one of each step alone, so all curves are as long
    assert (heldout.of, heldout.last) == (most.label, most.metrics["heldout/bpb/code"])
    accuracy = found["bench/facts/plain/acc"]
    highest = max(checkpoints.finals, key=lambda c: c.metrics["bench/facts/plain/acc"])
    assert (accuracy.of, accuracy.last) == (highest.label, highest.metrics["bench/facts/plain/acc"])
    said = argosy("metrics", "--store", str(tmp_path), "heldout/bpb/code").out
    assert f" {heldout.last:.4g}  {most.label} " in said


def test_what_has_no_direction_or_few_items_is_not_worth_watching(tmp_path: Path,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_store(tmp_path, HONEST)
    checkpoints = read_checkpoints([Path(path) for path in store.checkpoints], store.evaluations)
    name, halves = "bench/facts/cloze/acc", "bench/facts/none_of_the_others/acc"
    for c in checkpoints.evaluated:  # an accuracy that is worth watching would be, by its numbers, under either name
        c.metrics[halves], c.stderr[halves] = c.metrics[name], c.stderr[name]
    before = {each.metric: each for each in watchlist(checkpoints)}
    assert (before[name].verdict, before[halves].verdict) == ("watch", "no direction")
    statements = {str(n): Value(f"fact-{n % 9}", 1.0, item=str(n)) for n in range(90)}
    monkeypatch.setattr(Checkpoint, "side", lambda self, _: Side(self.metrics[name], 0.01, statements, 90))
    [facts] = watchlist(checkpoints, metrics=[name])
    assert (facts.verdict, facts.why) == ("few items", "it is of 9 items, fewer than 10")


def test_steps_that_differ_in_their_seed_alone_are_seeds_of_one_model(tmp_path: Path) -> None:
    stores = [make_store(tmp_path, HONEST[:3], line=line) for line in ("a", "b")]
    training = [Path(path) for store in stores for path in store.checkpoints]
    evaluations = [path for store in stores for path in store.evaluations]
    name = "bench/facts/plain/acc"

    def seeds() -> float:
        [found] = watchlist(read_checkpoints(training, evaluations), training, metrics=[name])
        return found.found.seeds

    assert seeds() != seeds()  # NaN: the steps differ in a setting, so they are two models
    for number, path in enumerate(training):
        done = read_done(path)
        done["made_from"]["config"] |= {"line": "same", "seed": number}
        write_json(path / "outputs.json", done)
    assert seeds() == 0.0  # the same made-up answers


def test_what_guessing_scores_is_no_metric_and_who_has_seen_the_test_is_left_out(tmp_path: Path) -> None:
    store = make_store(tmp_path, HONEST)
    checkpoints = read_checkpoints([Path(path) for path in store.checkpoints], store.evaluations)
    before = {each.metric: each for each in watchlist(checkpoints)}
    assert not any(name.endswith("/chance") for name in before)
    best = max(checkpoints.evaluated, key=lambda c: c.metrics["bench/facts/cloze/acc"])
    best.seen["facts"] = Seen("facts", Contamination("order_gap", 0.9, 0.8, 1.0, 30.0, 1e-9, 0.99, 200, ()))
    for name, each in {each.metric: each for each in watchlist(checkpoints)}.items():
        assert before[name].checkpoints - each.checkpoints == int(name.startswith("bench/facts"))
