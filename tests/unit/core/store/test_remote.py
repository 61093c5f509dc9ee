"""Inputs by URI: what is taken, and what identifies them."""

from collections.abc import Iterator
from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.core.store.provenance import Identities
from argosy.core.store.remote import absolute, expand_input

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    system.pipe({"/store/a/x.txt": b"one", "/store/a/y.txt": b"two"})
    yield system
    system.rm("/store", recursive=True)


def test_paths_and_uris_of_stores_are_taken_and_others_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert [expand_input(given) for given in ("~/a", "a/b", "file:///x/y", "s3://b/k", "memory://a")] == [
        "/home/me/a", "a/b", "/x/y", "s3://b/k", "memory://a"]
    for given, words in (("https://x.org/a", "is a URL, allowed: a path, or a URI of a store"),
                         ("s4://b/k", "there is no protocol 's4', allowed: a path, or a URI that fsspec knows")):
        with pytest.raises(ValueError, match=words):
            expand_input(given)
    assert (absolute("s3://b/k"), absolute("/x/../y")) == ("s3://b/k", "/y")


def test_what_a_store_says_of_its_files_is_the_identity(memory: Any) -> None:
    def identity(uri: str = "memory://store/a") -> str:
        return Identities().of(uri, "data.inputs")

    first = identity()
    assert first == identity() != identity("memory://store/a/x.txt")
    memory.pipe("/store/a/y.txt", b"two")  # written anew
    assert identity() != first
    with pytest.raises(InputError, match=r"data\.inputs: memory://store/none does not exist, or holds no file"):
        identity("memory://store/none")
