"""What `argosy evaluate` takes from the store, and what it prints of a form whose answers are written."""

from argparse import Namespace
from pathlib import Path

from argosy.evidence.results.suite import find_suite
from tests.comparison_fixtures import node
from tests.evaluation_fixtures import make_items, write_items
from workflows.cli.evaluate import _own_steps


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
