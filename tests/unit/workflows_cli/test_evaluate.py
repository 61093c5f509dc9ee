"""What `argosy evaluate` takes from the store, and what it prints of a form whose answers are written."""

from argparse import Namespace
from pathlib import Path

from argosy.evidence.results.suite import find_suite
from tests.comparison_fixtures import node
from tests.evaluation_fixtures import make_items, write_items
from workflows.cli.evaluate import _lines, _own_steps


def test_the_stores_own_steps_are_taken_where_a_suite_reads_them_and_none_is_given(tmp_path: Path) -> None:
    data, tokens = (node(tmp_path / "runs", name, name, {}, {}) for name in ("data", "tokenize"))
    write_items(data / "benchmark/en.jsonl", make_items(2))
    args = Namespace(store=tmp_path / "runs", data="", tokens=None)
    found = {name: _own_steps(args, str(find_suite(name))) for name in ("benchmark", "heldout", "probes", "core")}
    assert found == {"benchmark": {"data": str(data)}, "heldout": {"tokens": str(tokens)}, "core": {},
                     "probes": {"data": str(data)}}
    given = Namespace(store=tmp_path / "runs", data="d", tokens="t")
    assert not any(_own_steps(given, str(find_suite(name))) for name in found)
    assert _own_steps(Namespace(store=tmp_path / "none", data="", tokens=None), str(find_suite("heldout"))) == {}


def test_the_share_that_no_rule_reads_stands_beside_the_accuracy() -> None:
    metrics = {"bench/t/written/acc": 0.25, "bench/t/written/chance": 0.0, "bench/t/written/unparsable": 0.5}
    lines = _lines({"metrics": metrics, "stderr": {}, "counts": dict.fromkeys(metrics, 4), "left_out": {}})
    assert [line.split() for line in lines] == [["t/written/acc", "0.250", "chance", "0.00,", "unparsable", "0.50",
                                                 "n", "4"]]
