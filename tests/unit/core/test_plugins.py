"""One new file is one new variant, rule or format; two of one name are an error."""

import importlib
from pathlib import Path

import pytest

from argosy.core.plugins import classes, modules

ONE = "class Base:\n    name = ''\n    def go(self): ...\n\nclass One(Base):\n    name = 'one'\n"


def package(root: Path, name: str, monkeypatch: pytest.MonkeyPatch, **files: str) -> object:
    (root / name).mkdir()
    for file, text in {"__init__": "", **files}.items():
        (root / name / f"{file}.py").write_text(text)
    monkeypatch.syspath_prepend(str(root))
    return importlib.import_module(name)


def test_what_a_module_defines_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = "from plugged.one import One\n\nclass Two(One):\n    name = 'a two'\n\nclass Other:\n    name = 'other'\n"
    found = package(tmp_path, "plugged", monkeypatch, one=ONE, two=two)
    assert list(modules(found)) == ["one", "two"]  # type: ignore[arg-type]
    given = classes(found, "things", lambda value: hasattr(value, "go"))  # type: ignore[arg-type]
    assert [(name, value.__name__) for name, value in given.items()] == [("a two", "Two"), ("one", "One")]


def test_two_of_one_name_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = package(tmp_path, "plugged_twice", monkeypatch, one=ONE, two=ONE)
    with pytest.raises(RuntimeError, match="two things are called 'one'"):
        classes(found, "things", lambda value: hasattr(value, "go"))  # type: ignore[arg-type]
