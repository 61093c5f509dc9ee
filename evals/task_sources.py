"""Where the items of a task come from: files, or datasets of Hugging Face."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.errors import InputError
from argosy.evaluation.suite_paths import ROOT, is_saved
from evals.formats import At, find_format, item_prefix, parse_records, read_items
from evals.items import Items

if TYPE_CHECKING:
    from evals.task_spec import TaskSpec

HUB = "huggingface"  # the value of ROOT that says: from there


class NoFileError(InputError):
    """A task's files are not there."""


def use_hub(spec: TaskSpec) -> bool:
    """Whether the task is read from Hugging Face."""
    return bool(spec.hf) and (not spec.files or os.environ.get(ROOT) == HUB)


def files_below(pattern: str, data: Path, spec: TaskSpec) -> list[Path]:
    """Files of a pattern below `data`, else below ARGOSY_BENCHMARKS; a pattern that is absolute is itself.

    Raises:
        NoFileError: there is none; says where the task's files are from and where they are looked for.
    """
    root = os.environ.get(ROOT, "")
    folders = [data, *([Path(root).expanduser()] if root and root != HUB else [])]
    for folder in folders:
        found = sorted(glob.glob(str(folder / pattern), recursive=True))
        if found:
            return [Path(path) for path in found]
    if not spec.source and not glob.has_magic(pattern):
        return [data / pattern]  # its reader says what is amiss
    looked = " or ".join(str(folder / pattern) for folder in folders)
    from_hub = f"; or set {ROOT}={HUB} to load {spec.hf} from Hugging Face" if spec.hf else ""
    get = f" Get it from {spec.source} and put it there" if spec.source else " Correct the path"
    raise NoFileError(f"there is no file {looked}.{get}, or set {ROOT} to the folder that has it{from_hub}")


def without_folders(found: Iterable[Path]) -> tuple[list[Path], Counter[str]]:
    """The files, and the folders that a pattern matched too, by name.

    Raises:
        InputError: there are folders alone.
    """
    paths = list(found)
    folders = [path for path in paths if path.is_dir()]
    if folders and len(folders) == len(paths):
        raise InputError(f"{folders[0]} is a folder: name the files in it, such as {folders[0].name}/*.jsonl")
    named = Counter(f"{path.name} is a folder, no file" for path in folders)
    return [path for path in paths if path not in folders], named


def names_of(paths: Sequence[Path]) -> list[str]:
    """What the ids of each file's items begin with: its stem, and where files of one task have the same (`a/test.csv`,
    `b/test.csv`), as many folders before it as tell them apart."""
    return [_name(path, [other for other in paths if other != path and item_prefix(other) == item_prefix(path)])
            for path in paths]  # fmt: skip


def _name(path: Path, others: Sequence[Path]) -> str:
    for folders in range(len(path.parents)) if others else ():
        if all(_last(path, folders) != _last(other, folders) for other in others):
            return "/".join((*_last(path, folders), item_prefix(path)))
    return f"{item_prefix(path)}{path.suffix if others else ''}"  # in one folder: told apart by what they end with


def _last(path: Path, folders: int) -> tuple[str, ...]:
    return path.parent.parts[len(path.parent.parts) - folders :]


def read_file(path: Path, spec: TaskSpec, limit: int | None, name: str = "") -> Items:
    """Items of a file, read once for all checkpoints of a process. `name`: what ids begin with; "": its stem."""
    about = (spec.format, spec.lang, spec.subject, spec.encoding, spec.index_from)
    return _read_again_when_changed(path, limit, name, about, path.stat().st_mtime_ns if path.is_file() else 0)


@lru_cache(maxsize=512)
def _read_again_when_changed(path: Path, limit: int | None, name: str, about: tuple[Any, ...], changed: int) -> Items:
    format, lang, subject, encoding, index_from = about
    return read_items(
        path, limit, format, lang=lang, subject=subject, encoding=encoding, index_from=index_from, name=name
    )


def merged(parts: Sequence[Items]) -> Items:
    """All of them as one; a second item of the same id is left out."""
    found, seen = Items(), set()
    for part in parts:
        found.left_out += part.left_out
        found.rejects += part.rejects
        for item in part.items:
            if item.id in seen:
                found.left_out["id is there twice"] += 1
            else:
                found.items.append(item)
            seen.add(item.id)
    return found


def sample(items: Items, size: int) -> Items:
    """`size` of the items in their order: those whose ids have the smallest digests, whatever else there is."""
    ranked = sorted(items.items, key=lambda item: sha256(item.id.encode()).digest())
    kept = {item.id for item in ranked[:size]}
    return Items([item for item in items.items if item.id in kept], items.left_out.copy(), items.rejects)


def hub_items(spec: TaskSpec, split: str, data: Path, limit: int | None) -> Items:
    """Items of a dataset's split, of all configurations that the task names.

    Raises:
        InputError: the dataset cannot be loaded, or has no usable item.
    """
    parts = [_hub_part(spec, config, split, data, limit) for config in spec.config or ("",)]
    return merged(parts)


def _hub_part(spec: TaskSpec, config: str, split: str, data: Path, limit: int | None) -> Items:
    where = f"{spec.hf}{f' ({config})' if config else ''}, split {split}"
    format = find_format(spec.format)
    at = At(config or split, 0, spec.lang, spec.subject or config, spec.index_from)
    name = _local(spec.hf, data)
    found = parse_records(_rows(name, config, split, spec.revision, where, _changed(name)), format, at, limit)
    if not found.items:
        raise InputError(f"{where}: no usable item; rows left out: {dict(found.left_out) or 'none, it is empty'}")
    return found


def _local(name: str, data: Path) -> str:
    """The directory below `data` where there is one of this name, else the name."""
    return str(data / name) if (data / name).is_dir() else name


def _changed(name: str) -> tuple[tuple[str, int], ...]:
    """Of the files in a directory, so that a change is seen."""
    return tuple((str(path), path.stat().st_mtime_ns) for path in sorted(Path(name).rglob("*")) if path.is_file())


@lru_cache(maxsize=128)
def _rows(name: str, config: str, split: str, revision: str, where: str, changed: tuple[tuple[str, int], ...]) -> Any:
    import datasets

    try:
        if is_saved(Path(name)):
            loaded = datasets.load_from_disk(name)
            return loaded[split] if isinstance(loaded, datasets.DatasetDict) else loaded
        return datasets.load_dataset(name, config or None, split=split, revision=revision or None)
    except Exception as error:  # its network, file and script errors have no common base
        text = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"dataset {where} cannot be loaded: {text}; correct hf, config or split, or save it with "
                         "`save_to_disk` where there is a network and name that directory") from None  # fmt: skip
