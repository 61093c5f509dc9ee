"""A digest covers what decides a result; a plan says what would run and why, and how much training that is."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.core.store.files import make_directory, write_json
from argosy.core.store.provenance import Identities
from argosy.core.store.step_files import ERROR, NODE, OUTPUTS
from steps.data import DataConfig
from steps.noop import NoopConfig
from tests.step_fixtures import write_lines
from tests.trees import write_files
from workflows.amounts import Ahead, amounts, describe_amounts
from workflows.graph import Graph, Node, definition
from workflows.plan import Plan, PlannedNode, plan


def noop(name: str = "a", *after: Node, part: str = "", **config: object) -> Node:
    inputs = {"after": after} if after else {}
    return Node(name, "noop", NoopConfig.model_validate(config), inputs=inputs, part=part)


def digest(*nodes: Node) -> str:
    return Graph(nodes).digest(nodes[-1])


def test_digest_is_stable_over_versions_of_argosy() -> None:
    """A change of this value makes every result in every store run again: never do it by accident."""
    root = noop("root", size=3)
    assert digest(root, noop("leaf", root, part="p", index=7)) == "e9f5d14fa681"


def test_name_part_config_version_and_all_upstream_count_and_runtime_fields_do_not(
    monkeypatch: pytest.MonkeyPatch) -> None:
    def last(size: int) -> str:
        first = noop("first", size=size)
        middle = noop("middle", first)
        return digest(first, middle, noop("last", middle))

    assert last(1) != last(2)
    before = digest(noop())
    assert digest(noop(seconds=5, fail="error")) == before
    assert before not in {digest(other) for other in (noop("b"), noop(part="x"), noop(size=1))}
    monkeypatch.setattr("workflows.graph.definition", lambda name: replace(definition(name), version=2))
    assert digest(noop()) != before


def test_bytes_and_name_of_an_external_file_count_but_not_its_place(tmp_path: Path) -> None:
    def of(name: str, text: str) -> str:
        write_files(tmp_path, {name: text})
        return digest(noop(inputs=[str(tmp_path / name)]))

    base = of("x/data.txt", "one")
    assert of("y/data.txt", "one") == base
    assert of("x/data.txt", "two") != base
    assert of("x/code.txt", "one") != base


def test_an_external_file_that_is_none_names_the_field(tmp_path: Path) -> None:
    write_files(tmp_path / "folder", {os.fsdecode(b"caf\xe9.txt"): "x"})
    for path, words in (("/nowhere/x", "/nowhere/x does not exist"), ("/dev/zero", "/dev/zero is a device, a pipe or"),
                        (f"{tmp_path}/folder", r"the name of .*caf.udce9.txt' is not UTF-8: rename the file")):
        with pytest.raises(InputError, match=rf"a\.inputs: {words}"):
            Graph([noop(inputs=[path])])
    with pytest.raises(ValueError, match=r"'https://x/a.txt' is a URL, allowed: a path; download it first"):
        noop(inputs=["https://x/a.txt"])


def test_hashes_are_kept_by_size_and_mtime(tmp_path: Path) -> None:
    path, cache = tmp_path / "f", tmp_path / "cache.json"
    path.write_text("one")
    os.utime(path, ns=(0, 0))
    first = Identities(cache)
    identity = first.of_path(path, "f")
    first.save()
    path.write_text("two")
    os.utime(path, ns=(0, 0))  # as if untouched: only the cache can know
    assert Identities(cache).of_path(path, "f") == identity
    os.utime(path, ns=(1, 1))
    assert Identities(cache).of_path(path, "f") != identity


def test_duplicate_unknown_upstream_wrong_field_and_cycle_are_named() -> None:
    a, inputs = noop("a"), dict[str, Node]()
    x = Node("x", "noop", NoopConfig(), inputs=inputs)
    inputs["after"] = noop("y", x)
    for nodes, words in (
        ([a, noop("a")], "two nodes are called 'a'"), ([noop("b", a)], "'b' depends on 'a', which is not in the graph"),
        ([a, Node("b", "noop", NoopConfig(), inputs={"befor": a})], r"inputs has 'befor', allowed: \['after'\]"),
        ([Node("b", "nosuch", NoopConfig())], r"there is no steps/nosuch\.py"),
        ([noop("a/b")], "cannot name a directory"), ([x, inputs["after"]], r"cycle: (x <- y <- x|y <- x <- y)"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            Graph(nodes)


def test_order_puts_upstream_first_and_else_keeps_the_given_one() -> None:
    a, b = noop("a"), noop("b")
    c = noop("c", a, b)
    assert [n.name for n in Graph([b, a, c]).nodes] == ["b", "a", "c"]
    assert [n.name for n in Graph([c, b, a]).nodes][-1] == "c"


def chain(size: int = 0, inputs: tuple[str, ...] = ()) -> list[Node]:
    a = Node("clean", "noop", NoopConfig(inputs=inputs))
    b = Node("pretrain", "noop", NoopConfig(size=size), inputs={"after": [a]})
    return [a, b, Node("sft", "noop", NoopConfig(), inputs={"after": [b]})]


def finish(nodes: list[Node], store: Path, *names: str) -> None:
    graph = Graph(nodes)
    for node in nodes:
        if node.name in names:
            directory = make_directory(Path(graph.directory(node, str(store))))
            record = graph.made_from(node)
            (directory / NODE).write_text(json.dumps(record))
            (directory / OUTPUTS).write_text(json.dumps({"outputs": {}, "made_from": record}))


def by_name(result: Plan) -> dict[str, PlannedNode]:
    return {node.id: node for node in result.nodes}


def test_what_is_done_does_not_run_and_the_rest_says_why(tmp_path: Path) -> None:
    data = tmp_path / "data.txt"
    data.write_text("one")
    finish(chain(inputs=(str(data),)), tmp_path / "files", "clean")
    data.write_text("changed")
    assert "input file of clean.inputs changed" in plan(chain(inputs=(str(data),)), tmp_path / "files").nodes[0].reason
    finish(chain(), tmp_path, "clean", "pretrain", "sft")
    assert plan(chain(), tmp_path).to_run == []
    changed = by_name(plan(chain(size=5), tmp_path))
    assert changed["clean"].state == "done"
    assert changed["pretrain"].reason.startswith("config changed: pretrain.size 0 -> 5 (was ")
    assert changed["sft"].reason.startswith("upstream of sft.after changed (was ")


def test_a_new_store_never_ran_and_a_failure_is_told(tmp_path: Path) -> None:
    first = plan(chain(), tmp_path)
    assert {node.reason for node in first.nodes} == {"never ran"}
    directory = Path(first.nodes[0].dir)
    directory.mkdir()
    (directory / ERROR).write_text(json.dumps({"message": "disk on fire"}))
    again = plan(chain(), tmp_path).nodes[0]
    assert (again.state, again.reason) == ("failed", "failed before: disk on fire")


def test_commands_carry_directories_and_survive_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.txt").write_text("x")
    result = plan(chain(inputs=("here.txt",)), tmp_path)
    clean, pretrain, _ = result.nodes
    assert json.loads(clean.command[4])["inputs"] == [str(tmp_path / "here.txt")]  # holds in any directory
    assert json.loads(pretrain.command[4])["after"] == [clean.dir]
    assert pretrain.command[:3] == ["python", "-m", "steps.noop"]
    assert Plan.model_validate_json(result.model_dump_json()) == result


def test_what_failed_in_part_is_planned_again_unless_the_range_leaves_it_out(tmp_path: Path) -> None:
    finish(chain(), tmp_path, "clean", "pretrain", "sft")
    for node in by_name(plan(chain(), tmp_path)).values():
        if node.name != "clean":  # the step that failed in part, and what was made from it
            path = Path(node.dir) / OUTPUTS
            path.write_text(json.dumps({**json.loads(path.read_text()), "again": ["bench/arc"]}))
    again = plan(chain(), tmp_path)
    assert [(node.name, node.state) for node in again.to_run] == [("pretrain", "pending"), ("sft", "pending")]
    assert again.to_run[0].reason == "done, but failed in part: bench/arc; retried"
    assert [node.name for node in plan(chain(), tmp_path, first="sft").to_run] == ["sft"]


PAIR = {"prompt": "a", "chosen": "b", "rejected": "c"}


def ahead(root: Path, step: str, own: DataConfig | None = None, **fields: Any) -> Ahead:
    """What a plan says of a step whose upstream node in `root/done` is done."""
    config = definition(step).config.model_validate(fields)
    done, mine = (PlannedNode.model_construct(name=name, dir=str(root / name), state=state, step=kind, selected=True,
                                              config=config.model_dump_json())
                  for name, state, kind in (("done", "done", "noop"), ("mine", "pending", step)))
    [found] = amounts(Plan.model_construct(store="", stages=(), nodes=(done, mine)), own or DataConfig())
    return found


@pytest.mark.parametrize("made", [False, True])
def test_a_stage_of_posttraining_has_at_most_the_records_of_its_data_or_of_the_user_s_files(made: bool,
                                                                                           tmp_path: Path) -> None:
    own = DataConfig()
    if made:
        write_lines(tmp_path / "done/preferences.jsonl", [PAIR] * 10)
    else:
        write_lines(tmp_path / "pairs.jsonl", [PAIR] * 10)
        own = DataConfig.model_validate({"preferences": str(tmp_path / "pairs.jsonl")})
    fields: dict[str, Any] = {"data": str(tmp_path / ("done" if made else "data-0")), "micro_batch_size": 1}
    found = ahead(tmp_path, "reward_model", own, batch_size=10, **fields)
    assert (found.amount, found.note) == (None, "of 10 records at most")
    with pytest.raises(InputError, match=r"mine\.batch_size=11 is more than the 10 examples"):
        ahead(tmp_path, "reward_model", own, batch_size=11, **fields)
    assert ahead(tmp_path, "preference", own, method="kto", batch_size=20, **fields).note  # two answers of a pair
    if not made:
        unknown = ahead(tmp_path, "sft", own, batch_size=100_000, **fields)  # of the demo's conversations
        assert "once its data are done" in describe_amounts([unknown])


def test_a_phase_of_pretraining_has_no_batch_of_more_samples_than_its_channels(tmp_path: Path) -> None:
    counts = {"train": {"tokens": 33_000, "documents": 1_000, "bytes": 1}}
    write_json(make_directory(tmp_path / "done") / "index.json", {"channels": {"a": counts, "b": counts}})
    fields: dict[str, Any] = {"tokenized": str(tmp_path / "done"), "sequence_length": 64, "tokens": 64 * 1_000}
    found = ahead(tmp_path, "pretrain", global_batch_size=100, **fields).amount
    assert found is not None
    assert (found.rows, found.tokens, found.steps, found.epochs) == (1_000, 66_000, 10, 1.0)
    with pytest.raises(InputError, match=r"mine\.global_batch_size=600 is more than the 525 samples"):
        ahead(tmp_path, "pretrain", global_batch_size=600, mixture={"a": 1, "b": 0}, **fields)
