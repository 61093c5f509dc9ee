"""Suites: YAML files that say what an evaluation consists of, with tasks of their own or taken from another suite, and
the files that they name: beside them, below `data`, or below $ARGOSY_BENCHMARKS.

    benchmarks:
      tasks:
        mmlu: {use: mmlu, limit: 200}     # task `mmlu` of suite mmlu (beside this one, or shipped), with another limit
        mine: {use: other.yaml, task: theirs}
"""

import difflib
import glob
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import model_validator

from argosy.core.config.explain import validated
from argosy.core.config.load import read_yaml
from argosy.core.config.schema import Config, expand_home
from argosy.core.errors import InputError

FOLDERS = tuple(Path(__file__).resolve().parents[3] / name for name in ("evals/suites", "probes/suites"))
_YAML = (".yaml", ".yml")
_NAME = re.compile(r"\w[\w. -]*")
C = TypeVar("C", bound=Config)
Find = Callable[[str], str]
_NOT_OF_A_TASK = ("limit", "variants", "only", "optional", "categories", "source", "defined_in")
Sections = dict[str, Any]  # benchmarks, probes and heldout, as a suite's YAML has them

ROOT = "ARGOSY_BENCHMARKS"  # the folder of published benchmarks, or `huggingface`
SAVED = ("dataset_dict.json", "state.json")  # a directory made by `save_to_disk` has one of them
_LISTS = ("files", "shots", "include_path", "defined_in")  # fields of a task that name files


class Suite(Config):
    """A suite's sections, each parsed by the part that runs it; one that is absent is not run."""

    name: str
    benchmarks: dict[str, Any] | None = None
    probes: list[dict[str, Any]] | None = None
    heldout: dict[str, Any] | None = None

    def section(self, name: str, config: type[C]) -> C:
        """Parse the section `name` as its own config. Raises InputError: a misspelt key or a value that is not allowed;
        names both."""
        return validated(config, getattr(self, name), {(): f"suite {self.name}, {name}"})


def find_suite(name: str, field: str = "suite", beside: Path | None = None) -> Path:
    """Find the file of a suite: a shipped one by its name, or the path of a YAML file.

    `field`: that names the suite, for the error. `beside`: a folder that is looked in first; paths are below it, or
    below the shipped suites. Raises InputError: there is no such suite; names the nearest. (A path that is absent
    shows when it is read.)."""
    if beside is None and (name.endswith(_YAML) or os.path.isabs(name)):
        return Path(name)
    folders = [*([beside] if beside else []), *FOLDERS]
    for folder in folders:
        if (path := folder / (name if name.endswith(_YAML) else f"{name}.yaml")).is_file():
            return Path(os.path.abspath(path))
    known = sorted({path.stem for folder in folders for path in folder.glob("*.yaml")})
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InputError(f"{field} is {name!r}{hint} (there are: {', '.join(known)}; or give the path of a YAML file)")


def load_suite(name: str) -> Suite:
    """Load a suite by its name or the path of its file. Raises InputError: there is no such suite (names the nearest),
    or it is no suite."""
    path = find_suite(name)
    data = read_yaml(path).data
    if not isinstance(data, dict) or not data:
        raise InputError(f"{path} is no suite: give at least one of benchmarks, probes, heldout")
    suite = validated(Suite, {"name": path.stem, **data}, {(): str(path)})
    folder = Path(os.path.abspath(path.parent))
    sections = {**_sections(suite), "benchmarks": _with_used_tasks(suite.benchmarks, folder)}
    return suite.model_copy(update=with_paths(folder, sections))


def check_apart(names: Iterable[str]) -> None:
    """Check that a task, and a variant of it, means one thing in all suites that have it: its metrics have one name.
    Raises InputError: two suites have another task, or variant, of one name."""
    found: dict[str, tuple[str, Any]] = {}
    for name in names:
        suite = load_suite(name)
        for task, spec in ((suite.benchmarks or {}).get("tasks") or {}).items():
            fields = dict(spec) if isinstance(spec, Mapping) else {"files": spec}
            chains = {**(suite.benchmarks or {}).get("variants", {"plain": None}), **fields.get("variants", {})}
            source = {key: value for key, value in fields.items() if key not in _NOT_OF_A_TASK}
            for what, meaning in ((task, source), *((f"{task}/{variant}", chain) for variant, chain in chains.items())):
                other, known = found.setdefault(what, (suite.name, meaning))
                if known != meaning:
                    raise InputError(f"suites {other} and {suite.name} have another {what} each: the metrics "
                                     f"bench/{what}/... would be one; give it another name in one of them")


def named_files(file: str) -> list[str]:
    """List absolute paths of the files that the suite in `file` names, but those below the data step's directory.
    Raises InputError: `file` is no suite."""
    path = Path(file)
    try:
        state = path.stat()
    except (OSError, ValueError):  # whoever reads it says so
        return []
    return files_of(_sections(_loaded(path, state.st_mtime_ns, state.st_size))) if stat.S_ISREG(state.st_mode) else []


class WithSuites(Config):
    """A config with `suites`: what they name is added to its `suite_files`, so that their bytes count."""

    @model_validator(mode="before")
    @classmethod
    def _name_files(cls, values: Any) -> Any:
        suites = values.get("suites") if isinstance(values, dict) else None
        if not suites or not isinstance(suites, list | tuple):
            return values
        files = [file for suite in suites for file in named_files(expand_home(str(suite)))]
        return {**values, "suite_files": tuple(dict.fromkeys([*values.get("suite_files", ()), *files]))}


def check_names(names: Iterable[str], where: str) -> None:
    """Check that names can be parts of MLflow's metric names (bench/TASK/VARIANT/acc, probe/SUITE/PROBE/acc). Raises
    InputError: one has a slash or other signs than letters, digits, `_`, `-`, `.` and spaces."""
    if wrong := [name for name in names if not _NAME.fullmatch(name)]:
        raise InputError(f"{where}: {wrong[0]!r} is no name: it is a part of metrics' names "
                         "(bench/TASK/VARIANT/acc), so begin with a letter or digit and go on with these, _, -, . and "
                         "spaces")


@lru_cache(maxsize=64)
def _loaded(path: Path, changed: int, size: int) -> Suite:
    return load_suite(str(path.absolute()))


def _sections(suite: Suite) -> dict[str, Any]:
    return {name: getattr(suite, name) for name in ("benchmarks", "probes", "heldout")}


def _with_used_tasks(benchmarks: dict[str, Any] | None, folder: Path) -> dict[str, Any] | None:
    """Replace each `use` of the section by the task that it names; `defined_in` has that task's file. A malformed
    section passes through: its own config says what is wrong with it."""
    tasks = (benchmarks or {}).get("tasks")
    if not isinstance(tasks, dict):
        return benchmarks
    return {**(benchmarks or {}), "tasks": {name: _task(name, spec, folder) for name, spec in tasks.items()}}


def _task(name: str, spec: Any, folder: Path) -> Any:
    if not isinstance(spec, Mapping) or "use" not in spec:
        return spec
    path = find_suite(str(spec["use"]), f"task {name}: use", folder)
    section = (read_yaml(path).data or {}).get("benchmarks", {})
    tasks = section.get("tasks", {})
    theirs_name = str(spec.get("task", name))
    if theirs_name not in tasks:
        raise InputError(
            f"task {name}: suite {path.stem} has no task {theirs_name!r}; it has {', '.join(tasks) or 'none'}")
    theirs = _task(theirs_name, tasks[theirs_name], path.parent)
    if not isinstance(theirs, Mapping):
        theirs = {"files": theirs}
    if "lm_eval" in theirs and isinstance(include := section.get("include_path"), str):
        beside = path.parent / include
        theirs = {"include_path": str(beside) if beside.exists() else include, **theirs}
    own = {key: value for key, value in spec.items() if key not in ("use", "task")}
    return {"defined_in": str(path), **theirs, **own}


class NoFileError(InputError):
    """A file that a suite names is absent."""


def locate(name: str, data: Path | str | None, what: str) -> Path:
    """Find the file or folder `name`: absolute (files beside a suite are), below `data`, or below $ARGOSY_BENCHMARKS.

    `what`: kind of the file, for the error. Raises NoFileError: it is nowhere; names the places."""
    given = Path(name).expanduser()
    folders = [Path(folder).expanduser() for folder in (data, os.environ.get(ROOT)) if folder]
    places = [given] if given.is_absolute() else [folder / given for folder in folders]
    for place in places:
        if place.exists():
            return place
    looked = f"looked at {' and '.join(map(str, places))}" if places else f"neither `data` nor {ROOT} is set"
    raise NoFileError(f"{name} ({what}) does not exist: {looked}; put it beside the suite, give its absolute "
                      f"path, or set {ROOT} to the folder that it is in")


def with_paths(folder: Path, sections: Sections) -> Sections:
    """Make paths of files that lie in `folder`, the suite's, absolute."""

    def file(path: str) -> str:
        return str(folder / path) if glob.glob(str(folder / path), recursive=True) else path

    def dataset(name: str) -> str:
        return str(folder / name) if is_saved(folder / name) else name

    return _mapped(sections, file, dataset)


def files_of(sections: Sections) -> list[str]:
    """List absolute paths of what the sections name, but those below the data step's directory. They are absolute ones,
    those below ARGOSY_BENCHMARKS, the suites that tasks are taken from, and datasets that are directories."""
    found: dict[str, None] = {}

    def file(path: str) -> str:
        root = os.environ.get(ROOT, "")
        if os.path.isabs(path) and not glob.has_magic(path):
            found[path] = None
        elif os.path.isabs(path) or root:
            found.update(dict.fromkeys(sorted(glob.glob(os.path.join(os.path.expanduser(root), path), recursive=True))))
        return path

    def dataset(name: str) -> str:
        found.update({os.path.abspath(name): None} if os.path.isdir(name) else {})
        return name

    _mapped(sections, file, dataset)
    return list(found)


def _mapped(sections: Sections, file: Find, dataset: Find) -> Sections:
    """Replace each path of a file, and each name of a dataset; a malformed part passes through."""

    def path(value: Any) -> Any:
        return file(value) if isinstance(value, str) and value else value

    def task(spec: Any) -> Any:
        if isinstance(spec, Mapping):
            spec = {key: task(value) if key in _LISTS else value for key, value in spec.items()}
            return {**spec, "hf": dataset(spec["hf"])} if isinstance(spec.get("hf"), str) and spec["hf"] else spec
        return [path(each) for each in spec] if isinstance(spec, list) else path(spec)

    benchmarks, probes, heldout = (sections[name] for name in ("benchmarks", "probes", "heldout"))
    if benchmarks is not None:
        tasks = benchmarks.get("tasks")
        own = {"tasks": {name: task(spec) for name, spec in tasks.items()}} if isinstance(tasks, dict) else {}
        folder = {"include_path": path(benchmarks["include_path"])} if "include_path" in benchmarks else {}
        benchmarks = {**benchmarks, **own, **folder}
    if probes is not None:
        probes = [{**probe, "file": path(probe["file"])} if "file" in probe else probe for probe in probes]
    if heldout is not None and (texts := heldout.get("texts")):
        each = {name: path(text) for name, text in texts.items()} if isinstance(texts, dict) else path(texts)
        heldout = {**heldout, "texts": each}
    return {"benchmarks": benchmarks, "probes": probes, "heldout": heldout}


def is_saved(path: Path) -> bool:
    """Whether a directory is a dataset that was saved by `save_to_disk`."""
    return any((path / file).is_file() for file in SAVED)
