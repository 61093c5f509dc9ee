"""The shape of the product's code: few files in a folder, none of them too small or too large."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("argosy", "steps", "evals", "probes", "workflows")
# A file of these is found by its place: there may be many, and each may be small.
PLUGINS = {"steps", "argosy/corpus/cleaning/filters", "argosy/evidence/gate/rules", "argosy/corpus/data/readers",
           "argosy/model/post/rl/methods", "argosy/model/post/rl/rewards", "argosy/model/weights/exports",
           "evals/extract", "evals/formats", "evals/variants", "probes/kinds", "workflows/cli"}  # fmt: skip


@cache
def files() -> dict[str, Path]:
    """Our files by module."""
    found = [path.relative_to(ROOT) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in found}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def imported(path: Path) -> set[str]:
    """Our modules that a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            below = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in files() else node.module for name in below}
    return names & files().keys()


def lines(path: Path) -> int:
    return len((ROOT / path).read_text(encoding="utf-8").splitlines())


def is_plugin(path: Path) -> bool:
    return path.parent.as_posix() in PLUGINS


def test_plugin_folders_are_there() -> None:
    assert [folder for folder in PLUGINS if not (ROOT / folder / "__init__.py").is_file()] == []


def test_a_folder_has_at_most_fifteen_loose_files() -> None:
    every = [*files().values(), *(path.relative_to(ROOT) for path in (ROOT / "benchmarks").rglob("*.py"))]
    loose = Counter(path.parent for path in every if path.name != "__init__.py" and not is_plugin(path))
    assert {str(folder): count for folder, count in loose.items() if count > 15} == {}


def test_a_module_of_one_importer_is_worth_its_file() -> None:
    importers = Counter(name for path in files().values() for name in imported(path))
    small = {name: lines(path) for name, path in files().items() if importers[name] == 1 and lines(path) < 40
             and path.name != "__init__.py" and not is_plugin(path)}  # fmt: skip
    assert not small


def test_a_file_is_read_in_one_sitting() -> None:
    assert {str(path): lines(path) for path in files().values() if lines(path) > 300} == {}


BUDGET = {"argosy/core": (58, 9_210), "argosy/corpus": (139, 15_760), "argosy/model": (160, 21_000),
          "argosy/evidence": (60, 7_950), "argosy/planning": (2, 281)}  # files and lines


def test_no_wing_grows_beyond_its_budget() -> None:
    """A budget is raised in a commit of its own that says what for."""
    found = {wing: [path for path in files().values() if path.as_posix().startswith(f"{wing}/")] for wing in BUDGET}
    over = {wing: (len(paths), sum(map(lines, paths))) for wing, paths in found.items()}
    assert {wing: is_ for wing, is_ in over.items() if is_[0] > BUDGET[wing][0] or is_[1] > BUDGET[wing][1]} == {}
    assert {path.parts[1] for path in files().values() if path.parts[0] == "argosy" and len(path.parts) > 2} == {
        Path(wing).name for wing in BUDGET}
