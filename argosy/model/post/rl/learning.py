"""The loop of reinforcement learning: sample, score, update; resumable to the same bytes."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from argosy.core.errors import StepError
from argosy.corpus.data.split import derive_seed
from argosy.model.infer.logprobs import k1, k3
from argosy.model.post.rl import RLHFConfig
from argosy.model.post.rl.methods import Outcome, masked_mean
from argosy.model.post.rl.networks import (
    Networks,
    Rows,
    advantages_of,
    deductions,
    laid_out,
    make_networks,
    token_weights,
)
from argosy.model.post.rl.prompts import Guards, Judged, Stream, as_text, make_samples, rows_by_channel
from argosy.model.post.rl.rewards import Prompt, WeightedRewards
from argosy.model.post.rl.rollout import Ahead, Collector, Rollout, Sampler, SampleTable, TransformersSampler
from argosy.model.post.stage import Stage, Trained
from argosy.model.train.config import TrainConfig
from argosy.model.train.decisions import Turn
from argosy.model.train.engines.fitting import explained
from argosy.model.train.loop import Loop
from argosy.model.train.optim import learning_rate
from argosy.model.train.updates import SHOWN, Measured, Suspect, Values
from argosy.model.train.watch import NORM, RATE, UPDATE

WATCHED = (NORM, UPDATE, RATE, "rlhf/kl", "rlhf/reward", "rlhf/length", "rlhf/entropy")
PROBE = 8  # one of so many answers of a rollout, by which the policy checks the log-probabilities of a server


@dataclass(frozen=True)
class Experience:
    """A rollout as an update needs it: (answers, longest answer) each, on the CPU, the same in every process.

    Attributes:
        facts: what PolicyLoss reads, (5, answers, T); of: what ValueLoss reads, (3, answers, T), or None.
        total: gives what the loss of a minibatch's rows is divided by."""

    rows: Rows
    mask: Tensor
    facts: Tensor
    total: Any
    values: Tensor | None = None


class Learner:
    """Updates of the networks on rollouts."""

    def __init__(self, stage: Stage[RLHFConfig], networks: Networks, collector: Collector, steps: int,
                 guards: Guards | None = None) -> None:
        config = stage.config
        self.stage, self.networks, self.collector, self.steps = stage, networks, collector, steps
        self.ahead = Ahead(collector, config, steps)
        self.tokens = self.passed = 0  # rollouts that the watch passed over
        self._turn, self._rollout = Turn(0, 0), Rollout()  # the last ones
        self.guards, self.table = guards or Guards(config), SampleTable(stage.context)

    def train(self) -> int:
        """Take all updates, from the newest state on; returns the number of rollouts."""
        updates = Measured(self.update, self.carried, self.restore, suspects=self._suspects, watched=WATCHED)
        try:
            Loop(self.networks.phase, self.stage.context, self.networks, updates, self.steps).run()
            return self.steps
        finally:
            self.ahead.close()

    def carried(self) -> Mapping[str, Any]:
        """Return what a resumable state has besides the networks."""
        pending = self.ahead.state()  # first: prompts are taken from the stream until they are made
        return {"next": self.collector.stream.next, "tokens": self.tokens, "passed": self.passed,
                "guards": self.guards.state(), "samples": self.table.rows, "pending": pending}

    def restore(self, carried: Mapping[str, Any]) -> None:
        self.tokens, self.passed = carried["tokens"], carried["passed"]
        self.collector.stream.next, self.table.rows = carried["next"], list(carried["samples"])
        self.guards.restore(carried["guards"])
        self.ahead.restore(carried["pending"])

    def update(self, turn: Turn) -> Values:
        """Sample the answers that are due and learn from the oldest ones; returns what is logged."""
        begun, number, self._turn = time.perf_counter(), turn.step, turn
        while self.passed < turn.batch - number:
            self.ahead.drop()
            self.passed += 1
        self.ahead.prepare(number, wanted=self.guards.due(number))
        judged = self.guards.begin(number)
        with self.stage.context.progress.during("rollout"):
            rollout = self._rollout = self.ahead.take(number)
        if number % self.stage.config.log_every == 0 or number + 1 == self.steps:
            self.table.add(number + 1, rollout, self.collector.samples(rollout))
        self.ahead.start(number)  # from here on the sampler, the rewards and the tokenizer may be in use
        ready = time.perf_counter()
        experience, values = self.experience(rollout)
        values |= judged | self.guards.check(number, values, rollout.answers)
        values |= self.learn(experience, number)
        self.tokens += sum(len(prompt) + len(answer) for prompt, answer in experience.rows)
        done, tokens = time.perf_counter(), sum(map(len, rollout.answers))
        return values | {"rlhf/staleness": float(number - rollout.version), "time/update_ms": 1000 * (done - ready),
                         "time/step_ms": 1000 * (done - begun), "time/generation_ms": 1000 * rollout.seconds,
                         "time/overlap_ms": 1000 * max(0.0, rollout.seconds - rollout.waited),  # while an update ran
                         "perf/generated_tokens_per_second": tokens / max(rollout.seconds, 1e-9)}

    def experience(self, rollout: Rollout) -> tuple[Experience, Values]:
        """Score a rollout's answers; returns what to learn from it, and its means."""
        config, networks, stream = self.stage.config, self.networks, self.collector.stream
        rows = [(stream.at(place).ids, answer) for place, answer in zip(rollout.places, rollout.answers, strict=True)]
        sampled = padded(rollout.sampled)
        mask = padded([[1.0] * len(answer) for answer in rollout.answers])
        reference = networks.reference_logprobs(rows)
        values = networks.score(networks.value.module, rows) if networks.value else None
        if config.dtype == "float32" and self.collector.sampler.exact:  # the sampler computes as the update does
            old = sampled
        elif config.updates == 1:  # what NaN stands for: the policy as it is
            old = torch.full_like(sampled, torch.nan)
        else:
            old = networks.score(networks.policy.module, rows)
        apart = self._difference(rollout, sampled, rows)
        ended, scores = torch.tensor(rollout.ended), torch.tensor(rollout.scores)
        scores = scores - deductions(config, mask.sum(1), ended)
        kl = k1(sampled, reference) if networks.reference and config.choice("kl") == "reward" else 0 * sampled
        advantages, returns = advantages_of(Outcome(scores, kl, mask, values), config)
        weights, total = token_weights(config, mask, (1 - ended) * config.length.masked)
        facts = torch.stack([old, sampled, reference, advantages, weights])
        valued = None if values is None else torch.stack([values, returns, mask])
        return Experience(rows, mask, facts, total, valued), apart | self._means(rollout, sampled, reference, mask)

    def _difference(self, rollout: Rollout, sampled: Tensor, rows: Rows) -> Values:
        """Compare a server's log-probabilities of the first answers with the policy's own; returns what is logged.
        Raises StepError: they are further apart than other kernels and `staleness` updates can bring them."""
        if self.collector.sampler.exact:
            return {}
        group, limit = self.networks.group, self.stage.config.server.tolerance
        some = rows[: max(1, len(rows) // (PROBE * group.world)) * group.world]
        own = self.networks.score(self.networks.policy.module, some)
        lengths = torch.tensor([len(answer) for _, answer in some])
        counted = torch.arange(own.shape[1]) < lengths[:, None]
        found = float(masked_mean((own - sampled[: len(some), : own.shape[1]]).abs(), counted.float()))
        if not found <= limit:
            raise StepError(f"the server's log-probabilities are {found:.3g} nats a token from the policy's own, "
                            f"allowed: {limit:g} (server.tolerance): it has other weights than those of version "
                            f"{rollout.version}, or computes something else; nothing was learnt from its answers")
        return {"rlhf/sampler_difference": found}

    def _means(self, rollout: Rollout, sampled: Tensor, reference: Tensor, mask: Tensor) -> Values:
        config = self.stage.config
        scores = torch.tensor(rollout.scores).view(-1, config.copies)
        found = {"rlhf/reward": fmean(rollout.scores), "rlhf/length": float(mask.sum(1).mean()),
                 "rlhf/truncated": 1 - fmean(rollout.ended),
                 **{f"rlhf/reward/{name}": fmean(part) for name, part in rollout.parts.items()}}
        columns = {"reward": (torch.tensor(rollout.scores), torch.ones(len(mask))),
                   "length": (mask.sum(1), torch.ones(len(mask)))}
        if config.copies > 1:
            found["rlhf/groups_of_equal_reward"] = float((scores == scores[:, :1]).all(1).float().mean())
        if config.dynamic_sampling:
            found["rlhf/resampled_prompts"] = float(rollout.resampled)
        if self.networks.reference:
            found |= {"rlhf/kl": float(masked_mean(k3(sampled, reference), mask)),
                      "rlhf/kl_k1": float(masked_mean(k1(sampled, reference), mask)),
                      "rlhf/kl_answer": float((k1(sampled, reference) * mask).sum(1).mean())}
            columns["kl"] = (k3(sampled, reference) * mask).sum(1), mask.sum(1)
        return found | means_by_channel(self.collector.stream, rollout.places, columns)

    def learn(self, experience: Experience, number: int) -> Values:
        """Take the optimizer steps that the rollout serves; returns means over its tokens."""
        config, networks = self.stage.config, self.networks
        generator = torch.Generator()
        totals: dict[str, float] = {}
        step = number * config.updates
        for turn in range(config.passes):
            generator.manual_seed(derive_seed("passes", config.seed, number, turn))
            order = torch.randperm(len(experience.rows), generator=generator).tolist()
            size = len(order) // config.minibatches
            for start in range(0, len(order), size):
                found = self._minibatch(experience, order[start : start + size], step)
                totals = {name: totals.get(name, 0.0) + value / config.updates for name, value in found.items()}
                step += 1
        return totals | {"train/lr": self._rate(networks.phase, step - 1)}

    def _rate(self, phase: TrainConfig, step: int) -> float:
        return self._turn.rate * self.guards.rate * learning_rate(phase, step)

    def _suspects(self, _: int) -> list[Suspect]:
        """Return the prompts of the last rollout with their rewards, each once, the lowest rewards first."""
        samples, scores = self.collector.samples(self._rollout), self._rollout.scores
        order = sorted(range(len(samples)), key=lambda row: (scores[row], row))
        return [{"reward": scores[row], "text": as_text(samples[row].prompt.messages)[:SHOWN],
                 "answer": samples[row].text[:SHOWN]} for row in order]

    def _minibatch(self, experience: Experience, rows: list[int], step: int) -> Values:
        networks, group = self.networks, self.networks.group
        total = experience.total(rows)
        own = rows[group.rank :: group.world]
        sums, norm = self._step(networks.policy, experience, own, experience.facts, total, step)
        found = group.sum(sums).tolist()
        values = {"train/loss": found[0] / total, "train/clipped": found[1] / total,
                  "rlhf/entropy": found[2] / found[3], **networks.policy.sizes(norm)}
        if networks.value and experience.values is not None:
            tokens = float(experience.mask[rows].sum())
            sums, _ = self._step(networks.value, experience, own, experience.values, tokens, step)
            values["train/value_loss"] = float(group.sum(sums)) / tokens
        return values

    def _step(self, engine: Any, experience: Experience, own: Sequence[int], facts: Tensor, total: float,
              step: int) -> tuple[Tensor, Tensor]:
        engine.module.train()
        rate = self._rate(engine.config, step)
        device, micro, parts = engine.group.device, engine.config.micro_batch, []
        for at in range(0, len(own), micro):
            rows = list(own[at : at + micro])
            chosen = facts[:, rows][:, experience.mask[rows] > 0].to(device)
            parts.append((*laid_out([experience.rows[row] for row in rows], device), chosen))
        found: tuple[Tensor, Tensor] = engine.update(parts, total, rate)
        return found


def means_by_channel(stream: Stream, places: Sequence[int], columns: Mapping[str, tuple[Tensor, Tensor]]) -> Values:
    """Return means over each channel's answers, where the run's prompts are of several.

    Args:
        places: of the answers' prompts in the stream.
        columns: by name, a sum over each answer and what it is a sum over, (answers,) each."""
    if len({prompt.channel for prompt in stream.prompts}) < 2:
        return {}
    channels = rows_by_channel([stream.at(place) for place in places])
    return {f"rlhf/{name}_by_channel/{channel}": float(above[rows].sum() / below[rows].sum())
            for name, (above, below) in columns.items() for channel, rows in channels.items()}


def padded(rows: Sequence[Sequence[float]]) -> Tensor:
    """Return the rows as (rows, longest row), float32, 0 behind an end."""
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row, dtype=torch.float32) for row in rows], batch_first=True)


def train_policy(
    stage: Stage[RLHFConfig], model: Any, prompts: Sequence[Prompt], heldout: Sequence[Prompt],
    rewards: WeightedRewards, true: WeightedRewards | None) -> Trained:
    """Train the policy `model`; its steps are rollouts, its tokens those of prompts and answers.

    `true`: a reward that is held out from training, measured on the prompts `heldout`. Raises StepError: a weight or a
    metric is not a finite number, or a guard stops the run."""
    config, source = stage.config, stage.source
    steps = config.amount_of_prompts(len(prompts)).steps
    length = max(len(prompt.ids) for prompt in prompts) + config.max_new_tokens
    phase = config.phase(steps, config.batch_size, length)
    with explained(phase, model, stage.group):
        networks = make_networks(stage, model, steps, length)
        longest = max(len(prompt.ids) for prompt in (*prompts, *heldout)) + config.max_new_tokens
        if config.generation == "vllm":
            from argosy.model.post.rl.server.sampler import VLLMSampler

            sampler: Sampler = VLLMSampler(stage, networks.whole, longest)
        else:
            apart = bool(config.staleness and config.overlap)
            sampler = TransformersSampler(networks.whole, getattr(torch, config.dtype), apart=apart)
        collector = Collector(sampler, Stream(prompts, config.seed), rewards, config, source, stage.group)

        def judge() -> Judged:
            seeds = [[derive_seed("true", config.seed, place)] for place in range(len(heldout))]
            answers, _ = sampler([prompt.ids for prompt in heldout], seeds, collector.decoding)
            samples = make_samples(source.tokenizer, heldout, answers, source.stop_ids)
            return rewards(samples).totals, true(samples).totals if true else []

        learner = Learner(stage, networks, collector, steps, Guards(config, judge if true else None))
        try:
            return Trained(learner.train(), learner.tokens, networks.whole.refresh())
        finally:
            sampler.close()
