"""A task of a suite: where its items come from, how they are read, and how they are grouped."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from argosy.core.config.schema import Config
from evals.fields import ONE_OR_SEVERAL, Fields
from evals.items import AnyItem

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
        """Read one file or a list of files as a task of these files."""
        if isinstance(value, str):
            value = [value]
        return {"files": value} if isinstance(value, list | tuple) else value

    @model_validator(mode="after")
    def _has_a_source(self) -> Self:
        if not self.files and not self.hf and not self.lm_eval:
            raise ValueError("give files, or hf (a dataset of Hugging Face), or lm_eval (a task of lm-eval's own)")
        if self.format and self.fields:
            raise ValueError("fields are given beside format, which knows its fields: leave one of them out")
        defaults = type(self).model_fields
        if self.lm_eval and (given := [name for name in _OF_FILES if getattr(self, name) != defaults[name].default]):
            raise ValueError(f"{given[0]} is given beside lm_eval, whose task has its own items: leave one of them out")
        return self

    def chains(self, variants: Mapping[str, Any]) -> dict[str, Any]:
        """Collect the variants that are made of the task: those of the suite's `variants`, and its own."""
        kept = {name: chain for name, chain in variants.items() if self.only is None or name in self.only}
        return {**kept, **self.variants}

    def groups(self, item: AnyItem) -> list[str]:
        """List the groups that an item counts in: its language, and the categories that have its subject."""
        return [item.lang, *(name for name, subjects in self.categories.items() if item.subject in subjects)]
