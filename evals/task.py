"""Tasks of a suite: where their items come from (files, datasets of Hugging Face, tasks of lm-eval), how they are
read, and how they are grouped."""

import glob
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.core.step.contract import Planned
from argosy.corpus.data.split import DATA_FILES
from argosy.evidence.results.suite import ROOT, NoFileError, Suite, is_saved, load_suite
from evals.chain import Chain
from evals.formats import At, find_format, item_prefix, parse_records, read_items
from evals.items import AnyItem, Item, Items, merged, mixed
from evals.lm_eval import Stamp, lm_eval_items, stamp
from evals.records import ONE_OR_SEVERAL, Fields

_OF_FILES = ("files", "shots", "hf", "format", "fields", "config", "split", "shots_split", "revision", "encoding",
             "index_from", "optional")  # fmt: skip


class TaskSpec(Config):
    """`benchmarks.tasks.<name>` of a suite: a list of files, or a mapping of these fields."""

    files: Annotated[tuple[str, ...], ONE_OR_SEVERAL] = ()
    """Patterns (`*`, and `**` for folders) beside the suite, below `data` or ARGOSY_BENCHMARKS, or absolute."""
    shots: Annotated[tuple[str, ...], ONE_OR_SEVERAL] = ()
    """The same for the items that few-shot examples come from."""
    format: str = ""
    """Name of a format (evals/formats); "": argosy's for JSONL, MMLU's for CSV."""
    fields: Fields | None = None
    """Names of the fields of JSONL, a JSON list or a CSV with a header, in place of a format."""
    mixed: bool | None = None
    """Whether options get an order that the item's id decides; None: where one place has nearly all right options."""
    lang: Literal["", "en", "zh"] = ""
    """Language of all items, where the format does not know it."""
    subject: str = ""
    """Subject of all items, where the format does not know it."""
    encoding: str = "utf-8"
    """Encoding of all files."""
    index_from: Literal[0, 1] | None = None
    """First number of answers that are numbers; None: the format's."""
    limit: int | None = Field(None, ge=1)
    """Size of a sample of the items, drawn by their ids: the same in every run."""
    hf: str = ""
    """A dataset of Hugging Face, or the directory of a saved one; read without `files`, and where ARGOSY_BENCHMARKS is
    `huggingface`."""
    config: Annotated[tuple[str, ...], ONE_OR_SEVERAL] = ()
    """Configurations (subjects) of the dataset."""
    split: str = "test"
    """Split of the dataset that the items come from."""
    shots_split: str = ""
    """Split of the dataset that few-shot examples come from."""
    revision: str = ""
    """Revision of the dataset."""
    lm_eval: str = ""
    """A multiple-choice task of lm-eval, or a group of them, whose documents are the items."""
    include_path: str = ""
    """A folder with YAML of further tasks for lm-eval; "": the section's."""
    source: str = ""
    """Origin and licence of the files, for the error that says they are absent."""
    variants: Mapping[str, Any] = Field(default_factory=dict)
    """Variants of this task alone, beside the suite's."""
    only: tuple[str, ...] | None = None
    """Names of the suite's variants that are made of this task; None: all."""
    optional: bool = False
    """Leave the task out, by name, where its files are absent."""
    categories: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Name -> subjects; metrics are also given for `<task>_<name>`."""
    defined_in: str = ""
    """The suite that the task was taken from (`use`)."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = [value]
        return {"files": value} if isinstance(value, list | tuple) else value

    def check_fields(self) -> None:
        if not self.files and not self.hf and not self.lm_eval:
            raise ValueError("give files, or hf (a dataset of Hugging Face), or lm_eval (a task of lm-eval's own)")
        if self.format and self.fields:
            raise ValueError("fields are given beside format, which knows its fields: leave one of them out")
        defaults = type(self).model_fields
        if self.lm_eval and (given := [name for name in _OF_FILES if getattr(self, name) != defaults[name].default]):
            raise ValueError(f"{given[0]} is given beside lm_eval, whose task has its own items: leave one of them out")

    def chains(self, variants: Mapping[str, Any]) -> dict[str, Any]:
        """Collect the variants that are made of the task: those of the suite's `variants`, and its own."""
        kept = {name: chain for name, chain in variants.items() if self.only is None or name in self.only}
        return {**kept, **self.variants}

    def groups(self, item: AnyItem) -> list[str]:
        """List the groups that an item counts in: its language, and the categories that have its subject."""
        return [item.lang, *(name for name, subjects in self.categories.items() if item.subject in subjects)]


HUB = "huggingface"  # the value of ROOT that names it


def read_task(spec: TaskSpec, data: Path, limit: int | None = None) -> Items:
    """Read the items of a task, at most `limit` of each file, then draw the task's own sample of them. An empty file is
    passed over where another is not, as in a benchmark in one language. Raises InputError: a file is absent (says where
    to get it), cannot be read, or has no usable item; StepError: the data of a task of lm-eval cannot be loaded."""
    found = _read(spec, spec.files, spec.split, data, limit)
    return found if spec.limit is None else sample(found, spec.limit)


def read_examples(spec: TaskSpec, data: Path, chain: Chain | None = None) -> list[AnyItem]:
    """Read the items that few-shot examples come from; none where the task names no `shots`, or `chain` has none.

    Raises InputError: as `read_task`; also for an optional task that has items: they are no examples for each other
    where others are named."""
    if chain is not None and not chain.few_shot:
        return []
    if spec.lm_eval:
        found = _lm_eval_items(spec, None, examples=True)
    elif not (spec.shots_split if use_hub(spec) else spec.shots):
        return []
    else:
        found = _read(spec, spec.shots, spec.shots_split, data, None)
    items = read_task(spec, data, 1).items
    if not found.items and items and not spec.lm_eval:
        raise NoFileError(f"its few-shot examples: {'; '.join(found.left_out)}")
    if all(isinstance(item, Item) and item.mixed for item in items):  # too few examples to show it by themselves
        return [mixed(item) if isinstance(item, Item) and not item.mixed else item for item in found.items]
    return found.items


def _read(spec: TaskSpec, files: Sequence[str], split: str, data: Path, limit: int | None) -> Items:
    if spec.lm_eval:
        return _lm_eval_items(spec, limit)
    if use_hub(spec):
        return merged([_hub_part(spec, config, split, data, limit) for config in spec.config or ("",)])
    try:
        found = dict.fromkeys(path for file in files for path in files_below(file, data, spec))
    except NoFileError:
        if not spec.optional:
            raise
        return Items([], Counter({f"no file {' or '.join(files)}; get it from {spec.source}": 1}))
    paths, folders = without_folders(found)
    filled = [path for path in paths if not path.is_file() or path.stat().st_size] or paths
    about = {field: getattr(spec, field) for field in ("format", "lang", "subject", "encoding", "index_from", "fields")}
    settings = tuple({**about, "mix": spec.mixed}.items())  # once for all checkpoints of a process
    parts = [_read_again_when_changed(path, limit, name, settings, path.stat().st_mtime_ns if path.is_file() else 0)
             for path in filled for name in [_name(path, filled)]]
    return merged([Items([], folders), *parts])


def _lm_eval_items(spec: TaskSpec, limit: int | None, *, examples: bool = False) -> Items:
    return lm_eval_items(spec.lm_eval, limit, include_path=spec.include_path, examples=examples, lang=spec.lang,
                         subject=spec.subject, mix=spec.mixed)


def check_nodes(parts: Sequence[Planned], nodes: Sequence[Planned]) -> None:
    """Check that evaluations by benchmarks alone find one of them: that it has files, those of the data step included,
    or is of lm-eval or Hugging Face. A suite with other sections has results without.

    Raises InputError: a suite finds none."""
    for name in sorted({node.config.suite_file or node.config.suite for node in parts}):
        check_one_there(load_suite(name), None)


def check_one_there(suite: Suite, data: Path | None) -> None:
    """Check the same of one suite. `data`: the folder that files are below; None: that of a data step that will run."""
    if not suite.benchmarks or suite.benchmarks.get("lm_eval") or suite.probes is not None or suite.heldout is not None:
        return
    tasks = [TaskSpec.model_validate(task) for task in suite.benchmarks["tasks"].values()]
    first: NoFileError | None = None
    for spec in tasks:
        made = () if data else DATA_FILES
        if spec.lm_eval or use_hub(spec) or any(fnmatch(name, file) for file in spec.files for name in made):
            return
        for file in spec.files:
            try:
                files_below(file, data or Path(os.devnull), spec)
                return
            except NoFileError as error:
                first = first or error
    if not tasks[0].source:
        raise InputError(f"suite {suite.name}: {first}")
    raise none_there(suite.name, len(tasks), f"no file {' or '.join(tasks[0].files)}; get it from {tasks[0].source}")


def none_there(suite: str, number: int, why: str) -> InputError:
    """Make the error that no benchmark of a suite is there; `why`: of one of them."""
    return InputError(f"suite {suite}: none of its {number} benchmarks is there ({why}); set {ROOT} to the folder that "
                      "has them, or name it (argosy evaluate --data DIR); docs/tasks.md says what lies in it")


def use_hub(spec: TaskSpec) -> bool:
    """Tell whether the task is read from Hugging Face."""
    return bool(spec.hf) and (not spec.files or os.environ.get(ROOT) == HUB)


def files_below(pattern: str, data: Path, spec: TaskSpec) -> list[Path]:
    """Find the files of a pattern below `data`, else below ARGOSY_BENCHMARKS; a pattern that is absolute is itself.
    Raises NoFileError: there is none; says where the task's files are from and where they belong."""
    root = os.environ.get(ROOT, "")
    folders = [data, *([Path(root).expanduser()] if root and root != HUB else [])]
    for folder in folders:
        found = sorted(glob.glob(str(folder / pattern), recursive=True))
        if found:
            return [Path(path) for path in found]
    looked = " or ".join(dict.fromkeys(os.path.abspath(folder / pattern) for folder in folders))
    if not spec.source and not glob.has_magic(pattern):
        of_data = "; a data step writes it: give its directory" if pattern.startswith("benchmark/") else ""
        beside = "" if os.path.isabs(pattern) else "beside the suite and "
        raise NoFileError(f"{pattern} does not exist, looked for {beside}at {looked}{of_data}; correct the path, name "
                          f"the folder that has it (argosy evaluate --data DIR), or set {ROOT} to it")
    from_hub = f"; or set {ROOT}={HUB} to load {spec.hf} from Hugging Face" if spec.hf else ""
    get = f" Get it from {spec.source} and put it there" if spec.source else " Correct the path"
    raise NoFileError(f"there is no file {looked}.{get}, or set {ROOT} to the folder that has it{from_hub}")


def without_folders(found: Iterable[Path]) -> tuple[list[Path], Counter[str]]:
    """Split paths into files, and names of folders that a pattern matched too. Raises InputError: all are folders."""
    paths = list(found)
    folders = [path for path in paths if path.is_dir()]
    if folders and len(folders) == len(paths):
        raise InputError(f"{folders[0]} is a folder: name the files in it, such as {folders[0].name}/*.jsonl")
    named = Counter(f"{path.name} is a folder, no file" for path in folders)
    return [path for path in paths if path not in folders], named


def _name(path: Path, paths: Sequence[Path]) -> str:
    """Choose the beginning of the ids of a file's items: its stem, and where several of a task's `paths` have the same
    (`a/test.csv`, `b/test.csv`), as many folders before it as tell them apart."""
    others = [other for other in paths if other != path and item_prefix(other) == item_prefix(path)]
    for folders in range(len(path.parents)) if others else ():
        if all(_last(path, folders) != _last(other, folders) for other in others):
            return "/".join((*_last(path, folders), item_prefix(path)))
    return f"{item_prefix(path)}{path.suffix if others else ''}"  # in one folder: told apart by what they end with


def _last(path: Path, folders: int) -> tuple[str, ...]:
    return path.parent.parts[len(path.parent.parts) - folders :]


@lru_cache(maxsize=512)
def _read_again_when_changed(path: Path, limit: int | None, name: str, settings: tuple[tuple[str, Any], ...],
                             changed: int) -> Items:
    return read_items(path, limit, name=name, **dict(settings))


def sample(items: Items, size: int) -> Items:
    """Draw `size` of the items in their order: those whose ids have the smallest digests, whatever else there is."""
    ranked = sorted(items.items, key=lambda item: sha256(item.id.encode()).digest())
    kept = {item.id for item in ranked[:size]}
    return replace(items, items=[item for item in items.items if item.id in kept], left_out=items.left_out.copy())


def _hub_part(spec: TaskSpec, config: str, split: str, data: Path, limit: int | None) -> Items:
    where = f"{spec.hf}{f' ({config})' if config else ''}, split {split}"
    format = find_format(spec.format, fields=spec.fields)
    at = At(config or split, 0, spec.lang, spec.subject, config, spec.index_from)
    name = str(data / spec.hf) if (data / spec.hf).is_dir() else spec.hf
    rows = _rows(name, config, split, spec.revision, where, stamp(name, "*"))
    found = parse_records(rows, format, at, limit, spec.mixed)
    if not found.items:
        raise InputError(f"{where}: no usable item; rows left out: {dict(found.left_out) or 'none, it is empty'}")
    return found


@lru_cache(maxsize=128)
def _rows(name: str, config: str, split: str, revision: str, where: str, changed: Stamp) -> Any:
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
