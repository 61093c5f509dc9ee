"""Amounts of the training that a plan has before it: rows, tokens, steps and epochs, as far as the data are known."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from argosy.core.errors import ArgosyError, InputError
from argosy.core.store.files import read_record
from argosy.corpus.data.records import files_by_channel, read_any
from argosy.corpus.data.sources import weights_of
from argosy.corpus.text.display import columns
from argosy.corpus.tokens.amounts import Amount, check_batch
from argosy.model.post.config import PosttrainingConfig, SFTConfig
from argosy.model.post.rl import RLHFConfig
from argosy.model.train.config import TrainConfig
from steps.data import DataConfig
from workflows.graph import definition
from workflows.plan import Plan, PlannedNode

MOST_BYTES = 64 * 2**20  # of data that a plan reads
PACKING = 1.05  # rows of an epoch, with packing, are a little more than its tokens divided by their length
HEAD = ("STAGE", "ROWS", "TOKENS", "BATCH", "STEPS", "EPOCHS", "")


class Ahead(NamedTuple):
    """A stage with its amount; `note`: what is not known yet."""

    stage: str
    batch: int
    steps: int
    amount: Amount | None
    note: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the cells below HEAD."""
        found = self.amount
        steps = f"{found.steps if found else self.steps:,}" if found or self.steps else ""
        return (self.stage, f"{found.rows:,}" if found else "", f"{found.tokens:,}" if found and found.tokens else "",
                f"{self.batch:,}", steps, f"{found.epochs:.3g}" if found else "", self.note)


def amounts(planned: Plan, data: DataConfig) -> list[Ahead]:
    """Count what each stage of training that is to run comes to. `data`: of the pipeline, whose files may be counted
    before they are curated. Raises InputError: a batch has more rows than there are; names the stage."""
    done = {node.dir for node in planned.nodes if node.state == "done"}
    found = []
    for node in planned.to_run:
        config: Any = definition(node.step).config
        if not issubclass(config, TrainConfig | PosttrainingConfig):
            continue
        try:
            found.append(_ahead(node, config.model_validate_json(node.config), done, data))
        except InputError as error:
            raise InputError(f"{node.name}.{error}") from None
    return found


def describe_amounts(found: Sequence[Ahead]) -> str:
    """Return a table for a terminal; "" where nothing is trained."""
    return columns([HEAD, *(each.cells for each in found)], right=range(1, 6)) + "\n\n" if found else ""


def _ahead(node: PlannedNode, config: Any, done: set[str], data: DataConfig) -> Ahead:
    if isinstance(config, TrainConfig):
        there = config.tokenized in done
        amount = _of_phase(config) if there else None
        return Ahead(node.name, config.global_batch_size, config.steps, amount, "" if there else "rows: after tokenize")
    known = _examples(config, done, data)
    if known is None:
        return Ahead(node.name, config.batch_size, config.max_steps, None, "rows: once its data are done")
    _check_at_most(config, known)
    return Ahead(node.name, config.batch_size, config.max_steps, None, f"of {known:,} records at most")


def _of_phase(config: TrainConfig) -> Amount:
    counts = read_record(Path(config.tokenized) / "index.json").get("channels", {})
    train = {name: splits["train"] for name, splits in counts.items() if splits.get("train", {}).get("tokens")}
    heldout = [name for name, splits in counts.items() if splits.get("heldout", {}).get("documents")]
    if problem := config.final_by_problem(heldout):
        raise InputError(problem)
    weights = weights_of(config.mixture, {name: each["tokens"] for name, each in train.items()})
    named = [train[name] for name in weights]
    tokens = sum(each["tokens"] for each in named)
    rows = max(1, math.ceil(sum(each["tokens"] - each["documents"] for each in named) / config.sequence_length))
    check_batch("global_batch_size", config.global_batch_size, math.ceil(rows * PACKING),
                f"samples of sequence_length={config.sequence_length} that the channels of the mixture have")
    return Amount(rows, config.global_batch_size, config.steps, tokens)


def _files(config: PosttrainingConfig) -> list[Path]:
    """Name the files of the data step that a step learns from."""
    named = getattr(config, "conversations", None) or (getattr(config, "preferences", "") or
                                                       getattr(config, "prompts", ""),)
    return [Path(config.data) / name for name in named]


def _size(files: list[Path]) -> int:
    return sum(file.stat().st_size for file in files if file.is_file())


def _examples(config: PosttrainingConfig, done: set[str], data: DataConfig) -> int | None:
    """Count the records that a step can learn from at most: those of the done data step, or of the user's files, of
    which curation and what is held out leave fewer. None: they are not known, or too many to be read here."""
    files = _files(config)
    if getattr(config, "pretraining_share", 0):
        return None
    if config.data in done:
        there = [file for file in files if file.is_file()]
        return sum(len(file.read_bytes().splitlines()) for file in there) if _size(there) <= MOST_BYTES else None
    kinds = {file.stem for file in files}
    given = {kind: those for kind in kinds if isinstance(those := getattr(data, kind, None), dict)}
    own = [path for kind, named in given.items() for _, _, path in files_by_channel(kind, named)]
    named = all(getattr(data, kind, None) for kind in kinds) and Path(config.data).name.startswith("data-")
    if not named or data.mixture or _size(own) > MOST_BYTES:  # a mixture may repeat records
        return None
    try:
        return sum(1 for path in own for _ in read_any(path, dict))
    except ArgosyError:
        return None  # which the data step says more of


def _check_at_most(config: PosttrainingConfig, records: int) -> None:
    """Refuse a batch that so many records cannot fill: a row has one or more conversations, a pair two answers."""
    if isinstance(config, RLHFConfig):
        config.amount_of_prompts(records)
        return
    if isinstance(config, SFTConfig):
        check_batch("batch_size", config.batch_size, records, "conversations, of which a row has one or more")
        return
    answers = 2 if getattr(config, "method", "") == "kto" else 1
    check_batch("batch_size", config.batch_size, records * answers, "examples that there are")
