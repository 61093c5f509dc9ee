"""Batches of an evaluation, computed here and by other processes, and what is on disk of them: records by key that
outlive a kill, results by batch, and scores by checkpoint and query.

The process that computes a batch changes nothing of it: batches are planned before they are dealt. A score from the
cache was computed in another batch, so its last digits may differ from what would be computed now (by less than 1e-5 in
float32): a step whose bytes count has no cache."""

import hashlib
import json
import logging
import math
import os
import secrets
import shutil
import time
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any

from argosy.core.errors import StepError
from argosy.core.step.contract import Progress
from argosy.core.step.process import die_with_parent, make_deterministic
from argosy.model.infer.rows import Query, Score

VERSION = 3  # of the meaning of a score; raised by whoever changes it
_LOG = logging.getLogger(__name__)
_WEIGHTS = ("*.safetensors", "*.bin", "*config.json", "base.json", "*token*", "vocab*", "merges*", "*.model",
            "*.index.json")
_SUFFIX = ".scores"
_AHEAD = 2  # batches that a process is given at a time, so that it never waits for the next one


class Records:
    """Texts by key in append-only files: a file a process, a line a record with its checksum.

    Processes do not disturb each other, and a line that is not whole is passed with a warning."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: IO[str] | None = None

    def read(self) -> Iterator[tuple[str, str]]:
        """Yield keys and texts of all processes."""
        broken = 0
        for path in sorted(self._directory.glob(f"*{_SUFFIX}")):
            with open(path, encoding="ascii", errors="replace") as lines:
                for line in lines:
                    record, _, checksum = line.rstrip("\n").rpartition(" ")
                    if record.isascii() and checksum == f"{zlib.crc32(record.encode()):08x}":
                        key, _, text = record.partition(" ")
                        yield key, text
                    else:
                        broken += 1
        if broken:
            _LOG.warning("%s: %d broken entries are ignored", self._directory, broken)

    def write(self, records: Mapping[str, str]) -> None:
        """Append records of ASCII, none with a line break, and no key with a space."""
        if not records:
            return
        if self._file is None:
            self._directory.mkdir(parents=True, exist_ok=True)
            name = f"{os.getpid()}-{secrets.token_hex(6)}{_SUFFIX}"
            self._file = (self._directory / name).open("x", encoding="ascii")
        lines = (f"{key} {text}" for key, text in records.items())
        self._file.write("".join(f"{line} {zlib.crc32(line.encode()):08x}\n" for line in lines))
        self._file.flush()


class ScoreCache:
    """Scores by query, in memory; with a directory, also those that other processes and earlier ones computed."""

    def __init__(self, directory: Path | None = None) -> None:
        self._records = Records(directory) if directory else None
        self._scores: dict[bytes, Score] = {}
        for key, text in self._records.read() if self._records else ():
            logprob, greedy, tokens = text.split(" ")
            self._scores[bytes.fromhex(key)] = Score(float(logprob), greedy == "1", int(tokens))

    def load(self, directory: Path) -> None:
        """Add the scores that another cache saved to a directory; nothing is written there."""
        self._scores |= ScoreCache(directory)._scores

    def save(self, directory: Path) -> None:
        """Write all scores so far to a directory, in place of what it has."""
        shutil.rmtree(directory, ignore_errors=True)
        Records(directory).write(_lines(self._scores))

    def get(self, query: Query) -> Score | None:
        return self._scores.get(_key(query))

    def add(self, scores: Iterable[tuple[Query, Score]]) -> None:
        """Remember scores; those that are no numbers are not written."""
        new = {_key(query): score for query, score in scores}
        self._scores |= new
        if self._records:
            self._records.write(_lines(new))


def model_directory(cache: Path, checkpoint: Path, about: Iterable[str]) -> Path:
    """Name the directory below `cache` of a model's scores: by the bytes of its weights, tokenizer and configuration,
    and by how it is computed (`about`: dtype, attention, device)."""
    digest = hashlib.sha256(repr((VERSION, *about)).encode())
    for path in sorted({path for pattern in _WEIGHTS for path in checkpoint.glob(pattern) if path.is_file()}):
        with open(path, "rb") as file:
            digest.update(path.name.encode() + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return cache / digest.hexdigest()[:32]


def _key(query: Query) -> bytes:
    numbers = array("q", (query.first, *query.tokens, -1, *query.targets))
    return hashlib.blake2b(numbers.tobytes(), digest_size=16).digest()


def _lines(scores: Mapping[bytes, Score]) -> dict[str, str]:
    return {key.hex(): f"{score.logprob!r} {int(score.greedy)} {score.tokens}"
            for key, score in scores.items() if math.isfinite(score.logprob)}


@dataclass(frozen=True)
class Helper:
    """Another process that computes batches with the same model."""

    load: "Callable[[Helper], Any]"
    """a function of a module, which loads the model (argosy.model.infer.model) in that process"""
    checkpoint: Path
    batch_tokens: int
    threads: int
    seed: int
    number: int
    """from 1; decides which GPU"""
    dtype: str = "weights"


class Journal:
    """Results of an evaluation, batch by batch, so that one that is killed goes on where it was.

    Keys are digests of all that a batch consists of, so a result that is read is what would be computed, to the last
    digit."""

    def __init__(self, directory: Path) -> None:
        self._records = Records(directory)
        self._results = dict(self._records.read())

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: str) -> Any:
        """Look up the result of a batch; None where there is none."""
        text = self._results.get(key)
        return None if text is None else json.loads(text)

    def put(self, key: str, result: Any) -> None:
        self._records.write({key: json.dumps(result)})


def key_of(kind: str, task: Any) -> str:
    return hashlib.sha256(repr((kind, task)).encode()).hexdigest()[:32]


@dataclass
class Work:
    """The computation of batches; that of an evaluation that may be killed has a journal."""

    journal: Journal | None = None
    helpers: Sequence[Helper] = ()
    """processes beside this one"""
    progress: Callable[[int, int], None] = lambda done, total: None
    """is called with the requests that are computed so far, and those that are planned"""
    _done: int = 0
    _planned: int = 0
    _pools: list[ProcessPoolExecutor] = field(default_factory=list)

    def run(self, kind: str, tasks: Sequence[Any], compute: Callable[[Any], Any],
            sizes: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Yield (index of the task, its result) in any order; results are made of lists, numbers and texts.

        `tasks`: made of tuples, numbers and texts; `sizes`: requests of each. Raises StepError: a process has
        ended; whatever a helper's `load` raises."""
        self._planned += sum(sizes)
        journal = self.journal
        keys = [key_of(kind, task) for task in tasks] if journal is not None else []
        found = [None if journal is None else journal.get(keys[index]) for index in range(len(tasks))]
        left = deque(index for index, result in enumerate(found) if result is None)
        known = ((index, result) for index, result in enumerate(found) if result is not None)
        for index, result in chain(known, self._computed(kind, tasks, left, compute)):
            if journal is not None and found[index] is None:
                journal.put(keys[index], result)
            self._done += sizes[index]
            self.progress(self._done, self._planned)
            yield index, result

    def _computed(self, kind: str, tasks: Sequence[Any], left: deque[int],
                  compute: Callable[[Any], Any]) -> Iterator[tuple[int, Any]]:
        if not self.helpers or len(left) < 2:
            yield from ((index, compute(tasks[index])) for index in left)
            return
        if not self._pools:
            spawn = get_context("spawn")
            self._pools = [ProcessPoolExecutor(1, spawn, _load_here, (helper, os.getpid())) for helper in self.helpers]
        running: dict[Future[Any], tuple[int, ProcessPoolExecutor]] = {}

        def submit(pool: ProcessPoolExecutor) -> None:
            if left:
                index = left.popleft()
                running[pool.submit(_compute_here, kind, tasks[index])] = (index, pool)

        for pool in self._pools * _AHEAD:
            submit(pool)
        while left or running:
            if left:
                index = left.popleft()
                yield index, compute(tasks[index])
            done, _ = wait(running, timeout=0 if left else None, return_when=FIRST_COMPLETED)
            for future in done:
                index, pool = running.pop(future)
                submit(pool)
                yield index, _result(future)

    def close(self) -> None:
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)
        self._pools = []


def reporter(progress: Progress, section: str) -> Callable[[int, int], None]:
    """Report computed requests to progress.json, and once a minute to the log, with the time that is left."""
    started, said = time.monotonic(), time.monotonic()
    first: int | None = None

    def report(done: int, total: int) -> None:
        nonlocal first, said
        now = time.monotonic()
        first = done if first is None else first
        left = (now - started) * (total - done) / (done - first) if done > first else 0.0
        note = f"{section}, {left / 60:.0f} min left" if left >= 60 else section
        progress.update(done, total, "requests", note)
        if now - said >= 60:
            said = now
            print(f"{section}: {done} of {total} requests, {left / 60:.0f} min left", flush=True)

    return report


def _result(future: Future[Any]) -> Any:
    try:
        return future.result()
    except BrokenProcessPool:
        raise StepError("a process of the evaluation has ended, as one does that needs more memory than there is: use "
                        "fewer `processes`; run again, and it goes on from what is already computed") from None


_LOADED: list[Any] = []  # the model of a helper's process, or why there is none


def _load_here(helper: Helper, parent: int) -> None:
    """Load the model in a helper's process. An error waits for the first task: of one raised here, the pool says only
    that it is broken."""
    die_with_parent(parent)
    try:
        make_deterministic(helper.seed, helper.threads)
        _LOADED.append(helper.load(helper))
    except Exception as error:
        _LOADED.append(error)


def _compute_here(kind: str, task: Any) -> Any:
    if isinstance(loaded := _LOADED[0], Exception):
        raise loaded
    return loaded.compute(kind, task)
