"""Hugging Face datasets in folders: what `save_to_disk` wrote, and the layout of the Hub with its card.

Their records about themselves (dataset_info.json, state.json, the card) are no documents, and files that a dataset
keeps as a cache (`cache-*.arrow`) are copies; the split of a file is what the card says, else what its name says."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from argosy.core.store.remote import Found, read_small

_RECORDS = ("state.json", "dataset_info.json", "dataset_dict.json", "dataset_infos.json")
_DATA = (".parquet", ".arrow", ".jsonl", ".jsonl.gz", ".jsonl.zst", ".json", ".json.gz", ".csv", ".tsv", ".txt")
_SPLITS = {"train": "train", "training": "train", "validation": "validation", "valid": "validation",
           "val": "validation", "dev": "validation", "test": "test", "testing": "test", "eval": "test"}
_CARD = "README.md"
_KEYS = {"annotations_creators", "configs", "dataset_info", "license", "pretty_name", "size_categories",
         "source_datasets", "task_categories"}  # one of which a card has, and a page of a site has none of
_CARD_BYTES = 2**20


class Dataset(NamedTuple):
    """Description of one file of a dataset."""

    split: str = ""
    is_root: bool = False
    """Whether the dataset is the whole input."""
    is_other: bool = False
    """Whether the file describes the dataset, or is a cache of it, and holds no documents."""


def find_datasets(found: Sequence[Found]) -> dict[str, Dataset]:
    """Return what datasets among these files say of them, by path below the input; other files are not in it."""
    known: dict[str, Dataset] = {}
    by_folder: dict[PurePosixPath, list[PurePosixPath]] = {}
    for each in found:
        by_folder.setdefault(PurePosixPath(each.inner).parent, []).append(PurePosixPath(each.inner))
    for each in found:
        folder, name = PurePosixPath(each.inner).parent, PurePosixPath(each.inner).name
        if name == "state.json" and (state := _object(each)) and "_data_files" in state:
            known |= _saved(folder, state, by_folder)
        elif name == _CARD and 0 < each.size < _CARD_BYTES and (card := _front_matter(each.path)) is not None:
            known = _hub(folder, card, by_folder) | known
        elif name in ("dataset_dict.json", "dataset_infos.json"):
            known[each.inner] = Dataset(is_other=True)
    return known


def _object(found: Found) -> dict[str, Any]:
    try:
        value = json.loads(read_small(found.path)) if found.size < _CARD_BYTES else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


_Folders = Mapping[PurePosixPath, Sequence[PurePosixPath]]  # the files in each


def _saved(folder: PurePosixPath, state: Mapping[str, Any], by_folder: _Folders) -> dict[str, Dataset]:
    """Description of the files of one split by `save_to_disk`."""
    above = folder.parent
    is_dict = folder != above and above / "dataset_dict.json" in by_folder.get(above, ())
    split = folder.name if is_dict else str(state.get("_split") or "")
    root = above if is_dict else folder
    wanted = {folder / str(each.get("filename")) for each in state["_data_files"]}
    return {str(path): Dataset(split, root == PurePosixPath("."), path.name in _RECORDS or (
        path.suffix == ".arrow" and path not in wanted)) for path in by_folder[folder]}


def _front_matter(path: str) -> dict[str, Any] | None:
    """The metadata at the top of a card; None: it has none, and is a text."""
    import yaml

    match = re.match(rb"---[^\S\n]*\n(.*?)\n---[^\S\n]*(\n|$)", read_small(path), re.DOTALL)
    try:
        value = yaml.safe_load(match[1].decode()) if match else None
    except (yaml.YAMLError, UnicodeDecodeError):
        return None
    return value if isinstance(value, dict) else None


def _hub(folder: PurePosixPath, card: Mapping[str, Any], by_folder: _Folders) -> dict[str, Dataset]:
    """Return the datasets that a card declares beside and below it; none, where it is no card or has no data files."""
    below = [path for at, paths in by_folder.items() if at.is_relative_to(folder) for path in paths
             if path.name.lower().endswith(_DATA)]
    if not below or not _KEYS & card.keys():
        return {}
    patterns = list(_patterns(card))
    is_root = folder == PurePosixPath(".")
    found = {str(path): Dataset(_split(str(path.relative_to(folder)), patterns), is_root, path.name in _RECORDS)
             for path in below}
    return found | {str(folder / _CARD): Dataset(is_other=True)}


def _patterns(card: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (split, pattern of paths) of the card's configs."""
    configs = card.get("configs")
    for config in configs if isinstance(configs, list) else ():
        files = config.get("data_files") if isinstance(config, dict) else None
        for each in files if isinstance(files, list) else ():
            if isinstance(each, dict) and "path" in each:
                paths = each["path"] if isinstance(each["path"], list) else [each["path"]]
                yield from ((str(each.get("split", "train")), str(path)) for path in paths)


def _split(inner: str, patterns: Sequence[tuple[str, str]]) -> str:
    for split, pattern in patterns:
        if fnmatch(inner, pattern):
            return split
    words = re.split(r"[^a-zA-Z]+", inner.rpartition(".")[0].lower())
    return next((_SPLITS[word] for word in reversed(words) if word in _SPLITS), "")
