"""A checkpoint made ready to be asked: by which backend, by how many processes, going on from what is known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from argosy.config import RUNTIME, Config
from argosy.evaluation.checkpoint import Checkpoint
from argosy.evaluation.journal import Journal
from argosy.evaluation.language_model import LanguageModel
from argosy.evaluation.work import Helper, Work

JOURNAL = "scores"  # below a step's `state`
KNOWN = "known"  # beside it: scores of a run that is tried again, whose batches will be others


class Computing(Config):
    """How scores are computed; what the evaluate step's config has of it."""

    threads: int = Field(1, ge=1)
    batch_tokens: int = Field(8192, ge=1)
    backend: Literal["transformers", "vllm"] = "transformers"
    processes: Annotated[int, RUNTIME] = Field(1, ge=1)
    cache: Annotated[str, RUNTIME] = ""


@contextmanager
def open_model(checkpoint: Checkpoint, how: Computing, state: Path, seed: int = 0) -> Iterator[LanguageModel]:
    """The model of a checkpoint; processes that help it end with the block.

    Args:
        state: a directory that outlives a kill; batches that are there are not computed again.
        seed: of torch in each process.

    Raises:
        InputError: it cannot be loaded, or the backend is not installed.
        StepError: it has disappeared meanwhile.
    """
    cache = Path(how.cache).expanduser() if how.cache else None
    journal = Journal(state / JOURNAL)
    if len(journal):
        print(f"{len(journal)} batches are computed already", flush=True)
    if how.backend == "vllm":
        from argosy.evaluation.vllm_model import VLLMLanguageModel

        model: LanguageModel = VLLMLanguageModel.open(
            checkpoint, how.batch_tokens, Work(journal), cache, how.processes, seed)
        model.scorer.known.take(state / KNOWN)
        yield model
        return
    helpers = [Helper(checkpoint.path, how.batch_tokens, how.threads, seed, n) for n in range(1, how.processes)]
    work = Work(journal, helpers)
    try:
        model = LanguageModel.load(checkpoint, how.batch_tokens, work=work, cache=cache)
        model.scorer.known.take(state / KNOWN)
        yield model
    finally:
        work.close()
