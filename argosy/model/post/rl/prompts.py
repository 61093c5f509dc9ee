"""Prompts of reinforcement learning: read with what their rewards check, some held out; what a policy earns on those,
greedy and sampled, and how far it has gone from its start; answers as samples, and tables of them for people to read;
and guards, which stop a run, or halve its rate, where a policy earns its reward in a way that nobody wants."""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

from argosy.core.config.explain import grouped
from argosy.core.errors import InputError, StepError
from argosy.core.step.contract import StepContext
from argosy.core.store.files import write_json
from argosy.corpus.data.schemas import Message, ParseError, parse_record, turns_of
from argosy.corpus.data.split import derive_seed, permuted_index
from argosy.model.infer.decode import Decoding, TransformersDecoder
from argosy.model.infer.logprobs import answer_kl
from argosy.model.post.rl import RLHFConfig
from argosy.model.post.rl.rewards import Prompt, Sample, WeightedRewards
from argosy.model.weights.chat import check_length, encode_prompt

FILE = "samples.json"
_TAG = '[{"path": "samples.json", "type": "table"}]'  # has MLflow show the file as a table
SAMPLES = 4  # sampled answers to a prompt: halves the noise of one
GRAM = 4  # tokens of what counts as a repetition
Judged = tuple[list[float], list[float]]  # of each held-out prompt, the trained and the true reward


def room_of_prompts(longest: int, max_new_tokens: int) -> int:
    """Return the tokens of the longest prompt. Raises InputError: the longest answer leaves none."""
    if (room := longest - max_new_tokens) < 1:
        raise InputError(f"max_new_tokens={max_new_tokens} leaves no room for a prompt in a context of {longest} "
                         "tokens; lower it")
    return room


def prompt_parser(tokenizer: Any, max_length: int,
                  problem: Callable[[dict[str, Any]], str] = lambda fields: "") -> Callable[[dict[str, Any]], Prompt]:
    """Return a function that makes a Prompt of a JSON record, or raises ParseError with the reason.

    Args:
        tokenizer: None: the prompt has no ids.
        max_length: tokens of the prompt alone: the context less the longest answer.
        problem: says why rewards cannot judge answers to a prompt with these fields, or ""."""

    def parse(record: dict[str, Any]) -> Prompt:
        (messages,) = turns_of("prompts", record, "prompt")
        fields = {key: value for key, value in parse_record("prompts", record).items() if key != "prompt"}
        if reason := problem(fields):
            raise ParseError(reason)
        ids = encode_prompt(tokenizer, messages) if tokenizer else []
        check_length(ids, max_length)
        return Prompt(messages, ids, fields)

    return parse


def hold_out(prompts: Sequence[Prompt], count: int, seed: int) -> tuple[list[Prompt], list[Prompt]]:
    """Return (prompts to train on, `count` different ones to evaluate on; at most a quarter of all).

    Equal prompts stay on one side, and which side depends on the text and the seed alone. Raises InputError: there
    are fewer than two different prompts."""
    by_hash: dict[str, Prompt] = {}
    for prompt in prompts:
        by_hash.setdefault(_digest(prompt, seed), prompt)
    if len(by_hash) < 2:
        raise InputError("the prompts are all equal: at least two different ones are needed, one to be held out")
    chosen = sorted(by_hash)[: max(1, min(count, len(by_hash) // 4))]
    held = set(chosen)
    train = [prompt for prompt in prompts if _digest(prompt, seed) not in held]
    return train, [by_hash[digest] for digest in chosen]


def _digest(prompt: Prompt, seed: int) -> str:
    text = "\0".join(message["content"] for message in prompt.messages)
    return hashlib.sha256(f"{seed}\0{text}".encode()).hexdigest()


@dataclass
class Stream:
    """The prompts of a run without an end: each comes once before one comes twice."""

    prompts: Sequence[Prompt]
    seed: int
    next: int = 0

    def at(self, place: int) -> Prompt:
        """Return the prompt at a place of the stream, a pure function of it."""
        turn, index = divmod(place, len(self.prompts))
        return self.prompts[permuted_index(index, len(self.prompts), derive_seed("prompts", self.seed, turn))]

    def take(self, count: int) -> list[int]:
        self.next += count
        return list(range(self.next - count, self.next))


def rows_by_channel(prompts: Sequence[Prompt]) -> dict[str, list[int]]:
    """Return the places of each channel's prompts, by its name."""
    return dict(sorted(grouped((prompt.channel, row) for row, prompt in enumerate(prompts)).items()))


def make_samples(tokenizer: Any, prompts: Sequence[Prompt], answers: Sequence[Sequence[int]],
                 stop_ids: Sequence[int]) -> list[Sample]:
    texts = tokenizer.batch_decode([list(answer) for answer in answers], skip_special_tokens=True)
    return [
        Sample(prompt, answer, text.strip(), bool(answer) and answer[-1] in stop_ids)
        for prompt, answer, text in zip(prompts, answers, texts, strict=True)]


def write_table(context: StepContext, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows by column as the step's table, and have MLflow show it."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    path = context.out / FILE
    write_json(path, {"columns": columns, "data": [[row.get(name) for name in columns] for row in rows]})
    context.tracker.artifact(path)
    context.tracker.tags({"mlflow.loggedArtifacts": _TAG})


def as_text(messages: Iterable[Message]) -> str:
    """Write a prompt as text, a turn a line."""
    return "\n".join(f"{message['role']}: {message['content']}" for message in messages)


@dataclass(frozen=True)
class PolicyEvaluation:
    """metrics by name; rewards: the mean reward of each prompt's sampled answers, in the prompts' order."""

    metrics: dict[str, float]
    rewards: list[float]

    def gain(self, before: "PolicyEvaluation") -> dict[str, float]:
        """Return the mean change of a prompt's sampled reward since `before`, and its standard error (paired by prompt;
        none for one prompt)."""
        gain, stderr = _change(before.rewards, self.rewards)
        known = {} if math.isinf(stderr) else {"heldout/reward/sampled/gain_stderr": stderr}
        return {"heldout/reward/sampled/gain": gain, **known}


def evaluate_policy(policy: Any, reference: Any, tokenizer: Any, prompts: Sequence[Prompt], rewards: WeightedRewards,
                    decoding: Decoding) -> PolicyEvaluation:
    """Return mean rewards of the prompts' answers, and the divergence from the reference.

    Args:
        decoding: its temperature is that of the sampled half; the same seed before and after training.

    Returns:
        The metrics heldout/reward/<greedy|sampled>, the same by component below it, heldout/length/<...> in tokens,
        heldout/kl, heldout/kl_k1, heldout/kl_k3 in nats an answer sampled at temperature 1, and, where prompts are of
        several channels, heldout/reward_by_channel/<channel> of the sampled answers."""
    values: dict[str, float] = {}
    ids = [prompt.ids for prompt in prompts]
    for kind, copies, chosen in (("greedy", 1, replace(decoding, temperature=0.0)), ("sampled", SAMPLES, decoding)):
        asked = [prompt for prompt in prompts for _ in range(copies)]
        answers = _answers(policy, ids, copies, chosen)
        totals, parts, _ = rewards(make_samples(tokenizer, asked, answers, decoding.stop_ids))
        values[f"heldout/reward/{kind}"] = fmean(totals)
        values |= {f"heldout/reward/{kind}/{name}": fmean(part) for name, part in parts.items()}
        values[f"heldout/length/{kind}"] = fmean([len(answer) for answer in answers])
    if decoding.temperature != 1.0:
        answers = _answers(policy, ids, SAMPLES, replace(decoding, temperature=1.0))
    kl = answer_kl(policy, reference, [each for each in ids for _ in range(SAMPLES)], answers, decoding.pad_id)
    values |= {f"heldout/{name}": value for name, value in kl.items()}
    means = [fmean(totals[at : at + SAMPLES]) for at in range(0, len(totals), SAMPLES)]
    if len(channels := rows_by_channel(prompts)) > 1:
        values |= {f"heldout/reward_by_channel/{name}": fmean([means[row] for row in rows])
                   for name, rows in channels.items()}
    return PolicyEvaluation(values, means)


def _answers(policy: Any, prompts: Sequence[Sequence[int]], copies: int, decoding: Decoding) -> list[list[int]]:
    seeds = [[derive_seed("heldout", decoding.seed, place, copy) for copy in range(copies)]
             for place in range(len(prompts))]
    return TransformersDecoder(policy)(prompts, seeds, replace(decoding, scored=False)).tokens


class Guards:
    """The guards of a run.

    Args:
        judge: answers the held-out prompts, the same prompts and seeds each time; None: there is no true reward.

    Attributes:
        rate: what the learning rate is multiplied by, which falls where a guard acts and `guards.action` is lower."""

    def __init__(self, config: RLHFConfig, judge: Callable[[], Judged] | None = None) -> None:
        self._guards, self._judge = config.guards, judge
        self.rate = 1.0
        self._length = 0.0
        self._first: Judged = ([], [])

    def state(self) -> dict[str, Any]:
        return {"rate": self.rate, "length": self._length, "first": self._first}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.rate, self._length, self._first = state["rate"], state["length"], state["first"]

    def due(self, number: int) -> bool:
        """Tell whether `begin` measures the true reward before update `number`, for which the sampler has weights."""
        return self._judge is not None and not number % self._guards.true_every

    def begin(self, number: int) -> dict[str, float]:
        """Measure the true reward before update `number`, where that is due; returns what is logged. Raises StepError:
        the trained reward has risen while the true one fell, each by more than its noise."""
        if self._judge is None or not self.due(number):
            return {}
        trained, true = self._judge()
        if not self._first[0]:
            self._first = trained, true
        rises, falls = _change(self._first[0], trained), _change(true, self._first[1])
        noise = self._guards.true_noise
        if rises[0] > noise * rises[1] and falls[0] > noise * falls[1]:
            true_one = ", ".join(f"{name}: {weight:g}" for name, weight in self._guards.true_reward.items())
            self._act(number, "true_reward", f"since the start the trained reward has risen by {rises[0]:.3g} on "
                      f"held-out prompts while the true one, {true_one}, fell by {falls[0]:.3g}",
                      "the trained reward is earned without what it stands for: mend rewards, or raise kl_coef")
        return {"guards/trained_reward": fmean(trained), "guards/true_reward": fmean(true)}

    def check(self, number: int, values: dict[str, float], answers: Sequence[Sequence[int]]) -> dict[str, float]:
        """Check the rollout of update `number`; returns what is logged. Raises StepError: a limit is passed, and
        `guards.action` is stop."""
        guards, length, share = self._guards, values["rlhf/length"], repetition(answers)
        self._length = self._length or length
        token, whole = values.get("rlhf/kl_k1", 0.0), values.get("rlhf/kl_answer", 0.0)
        lower = "lower learning_rate, or raise kl_coef"
        for name, wrong, what, advice in (
            ("kl_token", token > guards.kl_token, f"the divergence is {token:.3g} nats a token", lower),
            ("kl_answer", whole > guards.kl_answer, f"the divergence is {whole:.3g} nats an answer", lower),
            ("length_factor", not 1 / (guards.length_factor or 1) <= length / self._length <= guards.length_factor,
             f"answers have {length:.3g} tokens, at first {self._length:.3g}",
             "see whether a reward pays for length, or set length.soft_tokens"),
            ("repetition", share > guards.repetition, f"{share:.0%} of the runs of {GRAM} tokens are repetitions",
             "see whether a reward pays for them, or raise kl_coef"),
        ):
            if getattr(guards, name) and wrong:
                self._act(number, name, what, advice)
        return {"rlhf/repetition": share} | ({"guards/rate": self.rate} if guards.action == "lower" else {})

    def _act(self, number: int, name: str, what: str, advice: str) -> None:
        limit = getattr(self._guards, name)
        said = f"before step {number + 1}, guards.{name}={limit}: {what}; {advice}"
        if self._guards.action == "stop":
            raise StepError(f"{said}. guards.action=lower goes on at half the learning rate")
        self.rate /= 2
        print(f"{said}; the learning rate is {self.rate:g} of its course", flush=True)


def repetition(answers: Sequence[Sequence[int]]) -> float:
    """Return the mean share of an answer's runs of GRAM tokens that it has had before."""
    shares = []
    for answer in answers:
        grams = [tuple(answer[at : at + GRAM]) for at in range(len(answer) - GRAM + 1)]
        shares.append(1 - len(set(grams)) / len(grams) if grams else 0.0)
    return fmean(shares)


def _change(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """Return the mean change of paired numbers, and its standard error, inf of one."""
    changes = [now - then for now, then in zip(after, before, strict=True)]
    return fmean(changes), stdev(changes) / math.sqrt(len(changes)) if len(changes) > 1 else math.inf
