"""`argosy metrics` on a made-up store: what it says of each metric, and what it refuses."""

import json
from pathlib import Path

import pytest

from argosy.compare.checkpoints import read_checkpoints
from argosy.compare.watch import watchlist
from argosy.evaluation.contamination import Seen
from argosy.statistics.contamination import Contamination
from argosy.store.files import write_json
from argosy.store.step_files import read_done
from tests.report_fixtures import HONEST, make_store
from workflows.cli import main


def test_metrics_of_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_store(tmp_path, HONEST)
    assert main(["metrics", "--store", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[0].split() == ["METRIC", "VERDICT", "LAST", "OF", "95", "%", "CHANCE", "SIGNAL", "NOISE",
                                            "SNR", "TAU", "CHECKPOINTS"]
    assert main(["metrics", "--store", str(tmp_path), "bench/facts/cloze/acc", "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["chance"], found["checkpoints"]) == ("watch", 0.25, len(HONEST))
    assert found["found"]["ratio"] == pytest.approx(found["found"]["signal"] / found["found"]["noise"])
    assert main(["metrics", "--store", str(tmp_path), "--watch", "--snr", "1e9"]) == 0
    assert capsys.readouterr().out.strip() == ""
    assert main(["metrics", "--store", str(tmp_path), "bench/nothing/*"]) == 2
    assert "no metric is like bench/nothing/*" in capsys.readouterr().err
    assert main(["metrics", "--store", str(tmp_path / "empty")]) == 2
    assert "no finished evaluation" in capsys.readouterr().err


def test_the_table_says_of_which_checkpoint_the_last_value_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]
                                                              ) -> None:
    store = make_store(tmp_path, HONEST)
    checkpoints = read_checkpoints([Path(path) for path in store.checkpoints], store.evaluations)
    found = {each.metric: each for each in watchlist(checkpoints)}
    most = max(checkpoints.finals, key=lambda c: c.tokens)
    heldout = found["heldout/bpb/code"]  # of a final one of each step alone, so all curves are as long
    assert (heldout.of, heldout.last) == (most.label, most.metrics["heldout/bpb/code"])
    probe = found["probe/probes/fact_en/acc"]  # pretraining has three checkpoints
    assert (probe.of, probe.last) == ("pretrain", checkpoints.finals[0].metrics["probe/probes/fact_en/acc"])
    accuracy = found["bench/facts/plain/acc"]
    highest = max(checkpoints.finals, key=lambda c: c.metrics["bench/facts/plain/acc"])
    assert (accuracy.of, accuracy.last) == (highest.label, highest.metrics["bench/facts/plain/acc"])
    assert main(["metrics", "--store", str(tmp_path), "heldout/bpb/code"]) == 0
    said = capsys.readouterr().out
    assert f" {heldout.last:.4g}  {most.label} " in said
    assert "LAST: the value of the checkpoint OF" in said


def test_what_has_no_direction_or_few_items_is_not_worth_watching(tmp_path: Path, capsys: pytest.CaptureFixture[str]
                                                                  ) -> None:
    store = make_store(tmp_path, HONEST)
    checkpoints = read_checkpoints([Path(path) for path in store.checkpoints], store.evaluations)
    name, halves = "bench/facts/cloze/acc", "bench/facts/none_of_the_others/acc"
    for c in checkpoints.evaluated:  # an accuracy that is worth watching would be, by its numbers, under either name
        c.metrics[halves], c.stderr[halves] = c.metrics[name], c.stderr[name]
    before = {each.metric: each for each in watchlist(checkpoints)}
    assert (before[name].verdict, before[halves].verdict) == ("watch", "no direction")
    assert before[halves].found.ratio == before[name].found.ratio
    for c in checkpoints.evaluated:
        c.counts[name] = 9
    [few] = watchlist(checkpoints, metrics=[name])
    assert (few.verdict, few.why) == ("few items", "it is of 9 items, fewer than 10")
    assert main(["metrics", "--store", str(tmp_path), "--watch"]) == 0
    watch = capsys.readouterr().out.split()
    assert name in watch
    assert halves not in watch


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
        assert done is not None
        done["made_from"]["config"] |= {"line": "same", "seed": number}
        write_json(path / "outputs.json", done)
    assert seeds() == 0.0  # the same made-up answers


def test_what_guessing_scores_is_no_metric_and_who_has_seen_the_test_is_left_out(tmp_path: Path) -> None:
    store = make_store(tmp_path, HONEST)
    checkpoints = read_checkpoints([Path(path) for path in store.checkpoints], store.evaluations)
    before = {each.metric: each for each in watchlist(checkpoints)}
    assert before
    assert not any(name.endswith("/chance") for name in before)
    best = max(checkpoints.evaluated, key=lambda c: c.metrics["bench/facts/cloze/acc"])
    score = Contamination("order_gap", 0.9, 0.8, 1.0, 30.0, 1e-9, 0.99, 200, ())
    best.seen["facts"] = Seen("facts", score)
    after = {each.metric: each for each in watchlist(checkpoints)}
    assert after["bench/facts/cloze/acc"].checkpoints == before["bench/facts/cloze/acc"].checkpoints - 1
    assert after["bench/facts_en/cloze/acc"].checkpoints == before["bench/facts_en/cloze/acc"].checkpoints - 1
    others = [name for name in before if not name.startswith("bench/facts")]
    assert all(after[name].checkpoints == before[name].checkpoints for name in others)
