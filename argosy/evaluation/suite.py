"""Suites: YAML files that say what an evaluation consists of."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from argosy.config import Config
from argosy.config_explain import config_error
from argosy.errors import InputError
from argosy.evaluation.suite_paths import beside, files_of, texts_beside, texts_of
from argosy.evaluation.suite_use import with_used
from argosy.yaml_file import read_yaml

_NAME = re.compile(r"\w[\w. -]*")
C = TypeVar("C", bound=Config)


class Suite(Config):
    """A suite's sections, each parsed by the part that runs it; one that is absent is not run."""

    name: str
    benchmarks: dict[str, Any] | None = None
    probes: list[dict[str, Any]] | None = None
    heldout: dict[str, Any] | None = None

    def section(self, name: str, config: type[C]) -> C:
        """The section `name` as its own config.

        Raises:
            InputError: a misspelt key or a value that is not allowed; names both.
        """
        try:
            return config.model_validate(getattr(self, name))
        except ValidationError as error:
            raise config_error(config, error, {(): f"suite {self.name}, {name}"}) from None


def check_names(names: Iterable[str], where: str) -> None:
    """Raise where one cannot be a part of a metric's name (bench/TASK/VARIANT/acc, probe/SUITE/PROBE/acc), as MLflow
    has them.

    Raises:
        InputError: it has a slash or other signs than letters, digits, `_`, `-`, `.` and spaces.
    """
    if wrong := [name for name in names if not _NAME.fullmatch(name)]:
        raise InputError(f"{where}: {wrong[0]!r} is no name: it is a part of metrics' names "
                         "(bench/TASK/VARIANT/acc), so begin with a letter or digit and go on with these, _, -, . and "
                         "spaces")


def load_suite(name: str, file: str, folders: Sequence[Path]) -> Suite:
    """The suite in `file`, or the one called `name` in the first folder that has it.

    Raises:
        InputError: there is no such suite (names the nearest), or it is no suite.
    """
    path = Path(file) if file else _find(name, folders)
    data = read_yaml(path).data
    if not isinstance(data, dict) or not data:
        raise InputError(f"{path} is no suite: give at least one of benchmarks, probes, heldout")
    try:
        suite = Suite.model_validate({"name": path.stem, **data})
    except ValidationError as error:
        raise config_error(Suite, error, {(): str(path)}) from None
    folder = Path(os.path.abspath(path.parent))
    benchmarks, probes = beside(folder, with_used(suite.benchmarks, folder), suite.probes)
    heldout = texts_beside(folder, suite.heldout)
    return suite.model_copy(update={"benchmarks": benchmarks, "probes": probes, "heldout": heldout})


def named_files(file: str) -> list[str]:
    """Absolute paths of the files that the suite in `file` names, but those below the data step's directory.

    Raises:
        InputError: `file` is no suite.
    """
    path = Path(file)
    if not path.is_file():
        return []
    suite = _loaded(path, path.stat().st_mtime_ns, path.stat().st_size)
    return list(dict.fromkeys([*files_of(suite.benchmarks, suite.probes), *texts_of(suite.heldout)]))


@lru_cache(maxsize=64)
def _loaded(path: Path, changed: int, size: int) -> Suite:
    return load_suite("", str(path), ())


def _find(name: str, folders: Sequence[Path]) -> Path:
    found = {path.stem: path for folder in reversed(folders) for path in sorted(folder.glob("*.yaml"))}
    if name not in found:
        near = difflib.get_close_matches(name, found, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(f"suite is {name!r}{hint} (there are: {', '.join(sorted(found))}; or give suite_file)")
    return found[name]
