"""The digest covers what decides a result, and nothing else."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from argosy.core.errors import InputError
from argosy.core.store.provenance import Identities
from steps.noop import NoopConfig
from workflows.graph import Graph, Node, definition


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
    monkeypatch: pytest.MonkeyPatch
) -> None:
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
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return digest(noop(inputs=[str(path)]))

    base = of("x/data.txt", "one")
    assert of("y/data.txt", "one") == base
    assert of("x/data.txt", "two") != base
    assert of("x/code.txt", "one") != base


def test_an_external_file_that_is_none_names_the_field(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / os.fsdecode(b"caf\xe9.txt")).write_text("x")
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
