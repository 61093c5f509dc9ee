"""A task of a suite: where its items come from, how they are read, and how they are grouped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from argosy.config import Config
from evals.items import AnyItem, Items
from evals.lm_eval_source import lm_eval_items
from evals.task_sources import (
    NoFileError,
    files_below,
    hub_items,
    merged,
    names_of,
    read_file,
    sample,
    use_hub,
    without_folders,
)
from evals.variants import Chain

_OF_FILES = ("files", "shots", "hf", "format", "config", "split", "shots_split", "revision", "encoding", "index_from",
             "optional")  # fmt: skip


class TaskSpec(Config):
    """`benchmarks.tasks.<name>` of a suite: a list of files, or a mapping of these fields.

    Attributes:
        files: patterns (`*`, and `**` for folders) beside the suite, below `data` or ARGOSY_BENCHMARKS, or absolute.
        shots: the same for the items that few-shot examples come from.
        format: name of a format (evals/formats); "": argosy's for JSONL, MMLU's for CSV.
        lang, subject, encoding: of all files, where a format does not know them.
        index_from: 0 or 1: what answers that are numbers begin with; None: as the format has it.
        limit: a sample of so many items, the same for every run (drawn by the items' ids).
        hf: a dataset of Hugging Face, or a directory of one that was saved; read where there are no `files`, and
            where ARGOSY_BENCHMARKS is `huggingface`. `config`: its configurations (subjects).
        lm_eval: a multiple-choice task of lm-eval's own, or a group of them, whose documents are the items;
            `include_path` is a folder with YAML of further ones (by default the section's).
        source: where the files are from and under which licence: what the error says when they are absent.
        variants: of this task alone, beside the suite's. only: of the suite's, those it is asked in; None: all.
        optional: where no file is there, the task is left out and named, and the suite goes on.
        categories: name -> subjects; metrics are also given for `<task>_<name>`.
        defined_in: the suite that the task was taken from (`use`).
    """

    files: tuple[str, ...] = ()
    shots: tuple[str, ...] = ()
    format: str = ""
    lang: Literal["", "en", "zh"] = ""
    subject: str = ""
    encoding: str = "utf-8"
    index_from: Literal[0, 1] | None = None
    limit: int | None = Field(None, ge=1)
    hf: str = ""
    config: tuple[str, ...] = ()
    split: str = "test"
    shots_split: str = ""
    revision: str = ""
    lm_eval: str = ""
    include_path: str = ""
    source: str = ""
    variants: Mapping[str, Any] = Field(default_factory=dict)
    only: tuple[str, ...] | None = None
    optional: bool = False
    categories: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    defined_in: str = ""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        """One file or a list of files is a task of these files."""
        if isinstance(value, str):
            value = [value]
        return {"files": value} if isinstance(value, list | tuple) else value

    @field_validator("files", "shots", "config", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _has_a_source(self) -> Self:
        if not self.files and not self.hf and not self.lm_eval:
            raise ValueError("give files, or hf (a dataset of Hugging Face), or lm_eval (a task of lm-eval's own)")
        defaults = type(self).model_fields
        if self.lm_eval and (given := [name for name in _OF_FILES if getattr(self, name) != defaults[name].default]):
            raise ValueError(f"{given[0]} is given beside lm_eval, whose task has its own items: leave one of them out")
        return self

    def read(self, data: Path, limit: int | None = None) -> Items:
        """All items, at most `limit` of each file; then the task's own sample of them. A file that is empty is passed
        where another is not, as of a benchmark in one language.

        Raises:
            InputError: a file is absent (says where to get it), cannot be read, or has no usable item.
        StepError: the data of a task of lm-eval cannot be loaded.
        """
        found = self._read(self.files, self.split, data, limit)
        return found if self.limit is None else sample(found, self.limit)

    def pool(self, data: Path, chain: Chain | None = None) -> list[AnyItem]:
        """Items that few-shot examples come from; none where the task names no `shots`, or `chain` wants none.

        Raises:
            InputError: as `read`; also of an optional task that has items: they are no examples for each other where
                others are named.
        """
        if chain is not None and not any(variant.name == "few_shot" for variant in chain.variants):
            return []
        if self.lm_eval:
            return lm_eval_items(self, None, shots=True).items
        hub = use_hub(self)
        if not (self.shots_split if hub else self.shots):
            return []
        found = self._read(self.shots, self.shots_split, data, None)
        if not found.items and self.read(data, 1).items:
            raise NoFileError(f"its few-shot examples: {'; '.join(found.left_out)}")
        return found.items

    def chains(self, variants: Mapping[str, Any]) -> dict[str, Any]:
        """What the task is asked in: those of the suite's `variants`, and its own."""
        kept = {name: chain for name, chain in variants.items() if self.only is None or name in self.only}
        return {**kept, **self.variants}

    def groups(self, item: AnyItem) -> list[str]:
        """What metrics are also given for: the item's language, and the categories that its subject is in."""
        return [item.lang, *(name for name, subjects in self.categories.items() if item.subject in subjects)]

    def _read(self, files: tuple[str, ...], split: str, data: Path, limit: int | None) -> Items:
        if self.lm_eval:
            return lm_eval_items(self, limit)
        if use_hub(self):
            return hub_items(self, split, data, limit)
        try:
            found = dict.fromkeys(path for file in files for path in files_below(file, data, self))
        except NoFileError:
            if not self.optional:
                raise
            return Items([], Counter({f"no file {' or '.join(files)}; get it from {self.source}": 1}))
        paths, folders = without_folders(found)
        filled = [path for path in paths if not path.is_file() or path.stat().st_size] or paths
        parts = [read_file(path, self, limit, name) for path, name in zip(filled, names_of(filled), strict=True)]
        return merged([Items([], folders), *parts])
