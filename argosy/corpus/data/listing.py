"""The user's files, found and named in a fixed order: what can be read, and what is passed over."""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from argosy.core.config.explain import first_of, grouped
from argosy.core.errors import InputError
from argosy.core.store.files import parse_object
from argosy.core.store.remote import Found, find, is_uri, read_small, uri_name
from argosy.corpus.data.readers import ALLOWED, format_of
from argosy.corpus.data.sources import InputFile, SourceConfig

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
    by_folder = grouped((path.parent, path) for path in (PurePosixPath(each.inner) for each in found))
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
    return parse_object(read_small(found.path)) if found.size < _CARD_BYTES else {}


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


class PassedOver(NamedTuple):
    """The label of a file or link that is not read, and why."""

    label: str
    why: str


def input_files(path: Path, field: str = "input") -> tuple[list[Path], list[Path]]:
    """Return (readable files, what is passed over) at `path`, sorted: files of unknown formats, those below a
    name with `_` that are no code, links to folders or to nothing; what begins with a dot is in neither.

    Raises InputError: it does not exist, is empty, or is of an unknown format."""
    allowed = f"allowed: {ALLOWED}, or a directory of them"
    if not path.exists():
        raise InputError(f"{field} {path} does not exist; {allowed}")
    if path.is_file():
        if not format_of(path):
            raise InputError(f"{field} {path} is of an unknown format; {allowed}")
        if path.stat().st_size == 0:
            raise InputError(f"{field} {path} is empty (0 bytes)")
        return [path], []
    readable, others = [], []
    for found in sorted(path.rglob("*")):
        parts = found.relative_to(path).parts
        known = found.is_symlink() or format_of(found)
        if any(part.startswith(".") for part in parts) or (_below_mark(parts) and not known):
            continue
        if found.is_file() and not _unread(parts):
            readable.append(found)
        elif found.is_file() or found.is_symlink():
            others.append(found)
    if not readable:
        inner = [other.relative_to(path).as_posix() for other in others]
        names = first_of([f"{each}: {_why(str(path / each), each)}" for each in inner], 3)
        raise InputError(f"{field} {path} is a directory without a file to read"
                         f"{f' (it has {names})' if names else ''}; {allowed}")
    return readable, others


def _below_mark(parts: Sequence[str]) -> bool:
    """Whether a name or a folder's begins with `_`, as those of Spark and Hadoop that hold no data."""
    return any(part.startswith("_") for part in parts)


def _unread(parts: Sequence[str]) -> str:
    """Say why a file is not read; "": it is. In code, `_` means something else."""
    name = format_of(parts[-1])
    if not name:
        return "unknown format"
    return "" if name == "code" or not _below_mark(parts) else "a name on its path begins with _"


def _why(path: str, inner: str) -> str:
    """Say why what lies at `path`, `inner` below its input, is passed over."""
    is_link = not is_uri(path) and not Path(path).is_file()
    return "a link to a folder, or to nothing" if is_link else _unread(inner.split("/"))


def list_inputs(inputs: Sequence[str], config: SourceConfig | None = None,
                skip: Sequence[str] | None = None) -> tuple[list[InputFile], list[PassedOver]]:
    """Return (files to read, what is passed over), in a fixed order.

    `skip`: folders that may hold no readable file; None: any may, as those of held-out texts, which have no channels.
    Raises InputError: an input is absent, empty or of an unknown format, or a folder of it holds no readable file."""
    splits = config.splits if config else ()
    names = [uri_name(given) if is_uri(given) else Path(given).name for given in inputs]
    files: list[InputFile] = []
    unknown: list[InputFile] = []
    others: list[InputFile] = []  # that are known to hold no documents, or none that are wanted
    for index, given in enumerate(inputs):
        label = names[index] if names.count(names[index]) == 1 else f"{index}-{names[index]}"
        field = "input" if skip is None else "data.inputs"
        found_at = _remote(given, field) if is_uri(given) else _local(Path(given), field)
        datasets = find_datasets(found_at[0])
        for each in found_at[1]:
            unknown.append(_input(each, index, label, Dataset()))
        for each in found_at[0]:
            dataset = datasets.get(each.inner, Dataset())
            one = _input(each, index, label, dataset)
            wanted = not dataset.is_other and (not splits or not one.split or one.split in splits)
            (files if wanted else others).append(one)
        if skip is not None:
            _check_folders(given, [*files, *others], unknown, skip)
    _check_once(files, inputs)
    _check_splits(splits, {file.split for file in (*files, *others) if file.split})
    return files, [*(PassedOver(file.label, _why(file.path, file.inner)) for file in unknown),
                   *(PassedOver(file.label, "of another split, or a description of its dataset") for file in others)]


def _check_splits(splits: Sequence[str], there: Collection[str]) -> None:
    """Check that the inputs have the splits that are wanted. Raises InputError: they do not."""
    if unknown := [name for name in splits if name not in there]:
        raise InputError(f"data.source.splits has {unknown[0]!r}, and data.inputs no such split; there are: "
                         f"{', '.join(sorted(there)) or 'none, as they are no datasets with splits'}")


def _check_once(files: Sequence[InputFile], inputs: Sequence[str]) -> None:
    """Check that no two inputs give one file, whose documents would come twice. Raises InputError: they do."""
    first: dict[str, InputFile] = {}
    for file in files:
        path = file.path if is_uri(file.path) else os.path.realpath(file.path)
        if (before := first.setdefault(path, file)).input != file.input:
            raise InputError(f"{inputs[before.input]} and {inputs[file.input]} both give {file.path}, whose documents "
                             "would come twice: leave one of the two out")


def _input(found: Found, index: int, label: str, dataset: Dataset) -> InputFile:
    # Where a dataset is the input, its splits are the folders.
    folder = dataset.split if dataset.is_root and dataset.split else _folder(found.inner, found.path)
    return InputFile(found.path, f"{label}/{found.inner}" if found.inner else label, folder,
                     format_of(found.path), found.size, index, found.inner, dataset.split, found.hash)


def _folder(inner: str, path: str) -> str:
    parts = PurePosixPath(inner).parts
    return parts[0] if len(parts) > 1 or (parts and not is_uri(path) and Path(path).is_dir()) else ""


def _local(root: Path, field: str) -> tuple[list[Found], list[Found]]:
    return tuple([Found(str(path), "" if path == root else path.relative_to(root).as_posix(),
                        path.stat().st_size if path.is_file() else 0, "") for path in paths]
                 for paths in input_files(root, field))  # type: ignore[return-value]  # of two


def _remote(uri: str, field: str) -> tuple[list[Found], list[Found]]:
    allowed = f"allowed: {ALLOWED}, or a folder of them"
    found = find(uri, field)
    if len(found) == 1 and not found[0].inner:
        if not format_of(uri_name(uri)):
            raise InputError(f"{field} {uri} is of an unknown format; {allowed}")
        if not found[0].size:
            raise InputError(f"{field} {uri} is empty (0 bytes)")
        return found, []
    seen = [(each, PurePosixPath(each.inner).parts) for each in found if "/." not in f"/{each.inner}"]
    readable = [each for each, parts in seen if not _unread(parts)]
    others = [each for each, parts in seen if _unread(parts) and (format_of(each.path) or not _below_mark(parts))]
    if not readable:
        raise InputError(f"{field} {uri} is a folder without a file to read; {allowed}")
    return readable, others


def _check_folders(given: str, files: list[InputFile], unknown: list[InputFile], skip: Sequence[str]) -> None:
    """Refuse an input with a folder that nothing is read of."""
    below = [(_folder(file.inner, file.path), Path(file.path)) for file in unknown]
    lost = {folder for folder, _ in below} - {"", *skip} if below else set()
    if not lost or not (lost := lost - {_folder(file.inner, file.path) for file in files}):
        return
    folder = min(lost)
    suffixes = Counter("link" if path.is_symlink() else path.suffix or path.name for at, path in below if at == folder)
    held = ", ".join(f"{count} {suffix}" for suffix, count in suffixes.most_common(3))
    raise InputError(f"data.inputs {given}: no file of the folder {folder} can be read ({held}; allowed: {ALLOWED}, in "
                     "folders that are no links and, but for code, begin with no _), so that its channel would be "
                     "lost: convert them (each to a line of JSON with its text), rename the folder or name it as an "
                     f"input, or set data.source.skip=[{folder}]")
