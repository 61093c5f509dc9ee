"""Rollouts: answers of the policy to the next prompts, with their rewards; the next one is made by a thread.

They are the same whatever number of processes samples them: each answer's seed is of its place in the run."""

import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from queue import SimpleQueue
from typing import Any

import torch

from argosy.core.errors import Stopped
from argosy.core.step.contract import StepContext
from argosy.corpus.data.split import derive_seed
from argosy.model.infer.decode import Answers, Decoder, Decoding, TransformersDecoder
from argosy.model.post.rl import RLHFConfig
from argosy.model.post.rl.prompts import Stream, as_text, make_samples, write_table
from argosy.model.post.rl.rewards import Sample, WeightedRewards
from argosy.model.post.stage import Source
from argosy.model.train.engines.parts import WholeModel
from argosy.model.train.parallelism import Group

_CLOSE_S = 5.0  # patience with a generation that is given up; below the grace of a pod or of the ranks
ENDS, MOST = 2, 200  # rows of each end of a rollout in the table of samples, and of the table, whose oldest rows go


@dataclass
class Rollout:
    """Answers with their rewards, group by group; every process has all of them.

    Attributes:
        places: places of the prompts in the run's stream of prompts, one an answer.
        answers: token ids, with the stop token if the answer ended by itself.
        sampled: log-probabilities of the tokens under the sampler.
        ended: 1.0 for an answer that ended by itself.
        scores: the weighted rewards; parts: each reward; reasons: why, in words.
        resampled: prompts that were replaced because their answers were rewarded alike.
        version: updates that the weights had had which sampled them.
        seconds: time that the answers and their rewards took; waited: the part of it in which nothing else ran."""

    places: list[int] = field(default_factory=list)
    answers: list[list[int]] = field(default_factory=list)
    sampled: list[list[float]] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    parts: dict[str, list[float]] = field(default_factory=dict)
    reasons: dict[str, list[str]] = field(default_factory=dict)
    resampled: int = 0
    version: int = 0
    seconds: float = 0.0
    waited: float = 0.0

    def take(self, other: "Rollout", rows: Sequence[int]) -> None:
        """Add these answers of another rollout."""
        for name in ("places", "answers", "sampled", "ended", "scores"):
            getattr(self, name).extend(getattr(other, name)[row] for row in rows)
        for name, values in other.parts.items():
            self.parts.setdefault(name, []).extend(values[row] for row in rows)
        for name, texts in other.reasons.items():
            self.reasons.setdefault(name, []).extend(texts[row] for row in rows)


class Sampler(Decoder):
    """A decoder with the policy's weights.

    Attributes:
        exact: whether its log-probabilities of float32 are those of the update, bit for bit but for the batch.
        cancelled: set by another thread: answers that are being sampled are given up with an error."""

    exact = False

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    @abstractmethod
    def publish(self, version: int) -> None:
        """Take over the policy's weights as they are, after `version` updates; every process calls it, between two
        calls of the sampler."""

    def close(self) -> None:
        """Give back what it has opened."""


class TransformersSampler(Sampler):
    """Answers by transformers in this process. `apart`: from a copy of the weights, which updates leave as it is."""

    exact = True

    def __init__(self, whole: WholeModel, dtype: torch.dtype, *, apart: bool = False) -> None:
        super().__init__()
        self._dtype = dtype
        self._weights = whole.copied if apart else whole.refresh
        self._model: Any = None

    def publish(self, version: int) -> None:
        self._model = self._weights()

    def __call__(self, prompts: Sequence[Sequence[int]], seeds: Sequence[Sequence[int]], decoding: Decoding) -> Answers:
        """Answer each prompt. Raises Stopped: it was cancelled."""
        return TransformersDecoder(self._model, dtype=self._dtype, heard=self._check)(prompts, seeds, decoding)

    def _check(self, _: torch.Tensor) -> None:
        if self.cancelled.is_set():
            raise Stopped("the generation was given up")


class Collector:
    """Parts that make a rollout: sampler, prompts and rewards, shared out over the processes."""

    def __init__(self, sampler: Sampler, stream: Stream, rewards: WeightedRewards, config: RLHFConfig, source: Source,
                 group: Group) -> None:
        self.sampler, self.stream, self._rewards = sampler, stream, rewards
        self._config, self._source, self._group = config, source, group
        self._version = 0
        self.decoding = replace(source.decoding(config.max_new_tokens, config.temperature, config.seed),
                                batch_size=config.generation_batch_size)

    @property
    def device(self) -> torch.device:
        return self._group.device

    def use_group_of_its_own(self) -> None:
        """Speak to the other processes apart from whoever trains at the same time; every process calls it."""
        self._group = self._group.apart()

    def publish(self, version: int) -> None:
        """Have the sampler answer with the weights as they are, after `version` updates; every process calls it."""
        self.sampler.publish(version)
        self._version = version

    def collect(self) -> Rollout:
        """Return the next rollout of `batch_size` answers; prompts whose answers are all rewarded alike are replaced by
        the next ones, `dynamic_sampling` times at most, and stay where that does not suffice."""
        config, made, spare, begun = self._config, Rollout(version=self._version), Rollout(), time.perf_counter()
        copies, wanted = config.copies, config.batch_size
        for turn in range(config.dynamic_sampling + 1):
            found = self._answers(self.stream.take(wanted // copies))
            for start in range(0, wanted, copies):
                rows = range(start, start + copies)
                alike = config.dynamic_sampling and len({found.scores[row] for row in rows}) == 1
                (spare if alike or len(made.scores) == wanted else made).take(found, rows)
                made.resampled += bool(alike) and turn < config.dynamic_sampling
            if len(made.scores) == wanted:
                break
        made.take(spare, range(wanted - len(made.scores)))
        made.seconds = time.perf_counter() - begun
        return made

    def samples(self, rollout: Rollout) -> list[Sample]:
        """Return the answers of a rollout as rewards see them."""
        prompts = [self.stream.at(place) for place in rollout.places]
        return make_samples(self._source.tokenizer, prompts, rollout.answers, self._source.stop_ids)

    def _answers(self, places: Sequence[int]) -> Rollout:
        """Return the answers to the prompts at these places, of which each process samples its share."""
        config, copies = self._config, self._config.copies
        own = self._group.share(places)
        seeds = [[derive_seed("rl", config.seed, place, copy) for copy in range(copies)] for place in own]
        made = Rollout([place for place in own for _ in range(copies)])
        made.answers, made.sampled = self.sampler([self.stream.at(place).ids for place in own], seeds, self.decoding)
        samples = self.samples(made)
        made.scores, made.parts, made.reasons = self._rewards(samples)
        made.ended = [float(each.ended) for each in samples]
        together = Rollout()
        for part in self._group.gathered(made):
            together.take(part, range(len(part.scores)))
        return together


class SampleTable:
    """The best and the worst answers of rollouts, as MLflow reads tables: columns, and lists of their values.

    Attributes:
        rows: by column; they are part of a resumable state."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self.rows: list[dict[str, Any]] = []

    def add(self, step: int, rollout: Rollout, samples: Sequence[Sample]) -> None:
        order = sorted(range(len(samples)), key=lambda row: (-rollout.scores[row], row))
        ends = {"best": order[:ENDS], "worst": order[ENDS:][-ENDS:][::-1]}
        for end, row in ((end, row) for end, rows in ends.items() for row in rows):
            sample = samples[row]
            parts = {f"reward/{name}": values[row] for name, values in rollout.parts.items()}
            reasons = "; ".join(f"{name}: {each[row]}" for name, each in rollout.reasons.items() if each[row])
            self.rows.append({"step": step, "end": end, "prompt": as_text(sample.prompt.messages),
                              "answer": sample.text, "reward": rollout.scores[row], **parts, "reasons": reasons,
                              "tokens": len(sample.answer_ids), "ended": sample.ended})
        self.rows = self.rows[-MOST:]
        if self._context.rank == 0:
            write_table(self._context, self.rows)


_Task = tuple["Future[Rollout]", Callable[[], Rollout]]


class Ahead:
    """The rollouts that wait for their update, at most `staleness` of them: number k is sampled by the weights after
    update k - staleness, or by those of the start.

    With `overlap` and a `staleness` above 0 the last one that is due is made in a thread while the update runs. Only
    the moment differs: the thread samples from a copy of the weights, which nothing else touches, answers depend on
    their seeds alone, and it ends before weights are sent again, a state is saved, or its rollout is needed."""

    def __init__(self, collector: Collector, config: RLHFConfig, steps: int) -> None:
        self.collector, self.steps, self._prompts = collector, steps, config.batch_size // config.copies
        self.staleness, self._beside = config.staleness, bool(config.staleness and config.overlap)
        self.waiting: deque[Rollout] = deque()
        self._running: Future[Rollout] | None = None
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        if self._beside:
            collector.use_group_of_its_own()
            threading.Thread(target=_work, args=(self._tasks, collector.device), name="rollouts", daemon=True).start()

    def state(self) -> list[dict[str, Any]]:
        """Return the rollouts that wait, all of them made, for a resumable state."""
        self.settle()
        return [asdict(rollout) for rollout in self.waiting]

    def restore(self, state: Sequence[Mapping[str, Any]]) -> None:
        self.settle()  # what a run that goes back has begun is dropped
        self.waiting = deque(Rollout(**each) for each in state)

    def settle(self) -> None:
        """Wait for the rollout that is being made; raises what it failed with."""
        if self._running is not None:
            begun = time.perf_counter()
            rollout = self._running.result()
            rollout.waited = time.perf_counter() - begun
            self.waiting.append(rollout)
            self._running = None

    def drop(self) -> None:
        """Pass over the rollout that would come next, or its prompts where it is not made yet."""
        self.settle()
        if self.waiting:
            self.waiting.popleft()
        else:
            self.collector.stream.take(self._prompts)

    def prepare(self, number: int, *, wanted: bool = False) -> None:
        """Give the sampler the weights that stand before update `number`, where rollouts are due or it is `wanted`."""
        self.settle()
        if wanted or self._due(number):
            self.collector.publish(number)

    def take(self, number: int) -> Rollout:
        """Make what is due before update `number` (after `prepare`), but what is made beside it; returns the rollout
        that the update learns from."""
        while self._due(number) > self._beside:
            self.waiting.append(self.collector.collect())
            self.waiting[-1].waited = self.waiting[-1].seconds
        return self.waiting.popleft()

    def start(self, number: int) -> None:
        """Begin to make the last rollout that is due, after `take`; one that nobody would learn from is not made."""
        if self._due(number, taken=1):
            self._running = Future()
            self._tasks.put((self._running, self.collector.collect))

    def close(self) -> None:
        """Give up what is being made, and end the thread."""
        self.collector.sampler.cancelled.set()
        self._tasks.put(None)
        if self._running is not None:
            wait([self._running], _CLOSE_S)

    def _due(self, number: int, taken: int = 0) -> int:
        return min(number + self.staleness + 1, self.steps) - number - taken - len(self.waiting)


def _work(tasks: "SimpleQueue[_Task | None]", device: torch.device) -> None:
    """Make rollouts one after another, on a stream of their own where there is a GPU."""
    stream, module = None, torch.get_device_module(device)
    if device.type != "cpu":
        module.set_device(device)  # each thread has its own
        stream = module.Stream(device)
    with module.stream(stream) if stream else nullcontext():
        while (task := tasks.get()) is not None:
            future, make = task
            try:
                made = make()
                if stream:
                    stream.synchronize()
                future.set_result(made)
            except BaseException as error:  # the main thread raises it where it waits
                future.set_exception(error)
