"""One new file is one new plug-in; two of one name are an error, and an unknown one names the nearest."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.core.plugins import Folder, modules

BASE = "class Base:\n    name = ''\n"
ONE = "from {0} import Base\n\nclass One(Base):\n    name = 'one'\n"


def folder(root: Path, name: str, monkeypatch: pytest.MonkeyPatch, **files: str) -> Folder[Any]:
    (root / name).mkdir()
    for file, text in {"__init__": BASE, **files}.items():
        (root / name / f"{file}.py").write_text(text.replace("{0}", name))
    monkeypatch.syspath_prepend(str(root))
    return Folder("thing", importlib.import_module(name).Base, name)


def test_what_a_module_defines_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = "from plugged.one import One\n\nclass Two(One):\n    name = 'a two'\n\nclass Other:\n    name = 'other'\n"
    found = folder(tmp_path, "plugged", monkeypatch, one=ONE, two=two)
    assert list(modules(importlib.import_module("plugged"))) == ["one", "two"]
    assert [(name, value.__name__) for name, value in found.items()] == [("a two", "Two"), ("one", "One")]
    assert found.pick("one") is found["one"]
    with pytest.raises(InputError, match=r"unknown thing 'ome'; did you mean 'one'\? \(there are: a two, one\)"):
        found.pick("ome")


def test_a_folder_is_searched_once_until_it_is_to_forget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = folder(tmp_path, "plugged_later", monkeypatch, one=ONE)
    assert list(found) == ["one"]
    (tmp_path / "plugged_later" / "two.py").write_text(ONE.replace("{0}", "plugged_later").replace("one", "two"))
    assert list(found) == ["one"]
    found.forget()
    assert list(found) == ["one", "two"]


def test_two_of_one_name_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = folder(tmp_path, "plugged_twice", monkeypatch, one=ONE, two=ONE)
    with pytest.raises(RuntimeError, match="two things are called 'one'"):
        list(found)
