"""Records of synthesis: the prompts that are answered, without what evaluations hold out, and what is made of chosen
answers, written as the data step writes its own, with where they are from."""

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from argosy.core.errors import InputError, StepError
from argosy.corpus.cleaning.records import Curation, CurationConfig, curate
from argosy.corpus.data.counts import Rejects, read_records
from argosy.corpus.data.jsonl import JsonlWriters, read_jsonl
from argosy.corpus.data.schemas import Message, ParseError, assistant, turns_of
from argosy.corpus.data.split import derive_seed, permuted_index
from argosy.model.post.rl.prompts import as_text, hold_out
from argosy.model.post.rl.rewards import Prompt
from argosy.model.post.synthesis import HeldOut, SynthesisConfig
from argosy.model.post.synthesis.methods import METHODS, PREFERENCES, Answer, Chosen

HELD_OUT_FILES = ("instructions_heldout.jsonl", "preferences_heldout.jsonl", "feedback_heldout.jsonl")
_RL_PROMPTS = "prompts.jsonl"  # of which RL steps hold some out
_TEXTS = ("prompt", "messages", "chosen", "rejected")
Parse = Callable[[dict[str, Any]], Prompt]


@dataclass
class Unused:
    """Prompts that make no record, with the reason and what there is to say of them."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, prompt: Prompt, reason: str, **more: Any) -> None:
        self.rows.append({"prompt": list(prompt.messages), "reason": reason, **more})

    def counts(self) -> dict[str, int]:
        return dict(sorted(Counter(row["reason"] for row in self.rows).items()))


def read_prompts(config: SynthesisConfig, data: Path, parse: Parse, benchmark: Sequence[Mapping[str, Any]],
                 writers: JsonlWriters, rejects: Rejects) -> tuple[list[Prompt], Unused]:
    """Return the prompts to answer, each once, and those that are left out, with the reason.

    Args:
        parse: makes a prompt of a record {"prompt": messages, and its other fields}, or raises ParseError.
        benchmark: items {"question", "choices"} that no evaluation's model may learn.

    Raises InputError: none is left."""
    kind = config.prompts.removesuffix(".jsonl")
    read = read_records(data / config.prompts, lambda record: parse(prompt_record(kind, record)), rejects)
    every = list({prompt_digest(prompt.messages): prompt for prompt in read}.values())
    kept_out = _held_out(config, data, every if config.prompts == _RL_PROMPTS else [])
    questions = {first_question(record) for name in HELD_OUT_FILES if (data / name).is_file()
                 for record in read_jsonl(data / name)}  # fmt: skip
    unused, left = Unused(), []
    for prompt in every:
        if prompt_digest(prompt.messages) in kept_out or first_question({"prompt": prompt.messages}) in questions:
            unused.add(prompt, "held out for evaluation")
        else:
            left.append(prompt)
    left = _clean(left, config.curation, benchmark, writers, unused)
    if not left:
        raise InputError(f"{config.prompts} has no prompt to answer: {unused.counts()}; give more (data.prompts)")
    return left[: config.limit or None], unused


def prompt_record(kind: str, record: dict[str, Any]) -> dict[str, Any]:
    """Return a record of the kind `kind` as one of a prompt, which a conversation is up to its last answer. Raises
    ParseError: it has none."""
    if kind == "instructions":
        (messages,) = turns_of(kind, record, "messages")
        answers = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
        if not answers[-1]:
            raise ParseError("there is nothing before the assistant's words")
        messages = messages[: answers[-1]]
    else:
        (messages,) = turns_of(kind, record, "prompt")
    if record.get("tools") or any(message.get("tool_calls") for message in messages):
        raise ParseError("tools are called in it, and nothing here answers their calls")
    return {**{name: value for name, value in record.items() if name not in _TEXTS}, "prompt": messages}


def prompt_digest(messages: Iterable[Message]) -> str:
    """Return a digest of a prompt's text, which tells it from others and its answers' seeds from theirs."""
    text = "\0".join(f"{message['role']}\0{message['content']}" for message in messages)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def first_question(record: Mapping[str, Any]) -> str:
    """Return the words by which the data step holds records out: those of the first turn of the user."""
    messages = record.get("prompt") or record["messages"]
    return str(next((m["content"] for m in messages if m["role"] == "user"), messages[0]["content"]))


def _held_out(config: SynthesisConfig, data: Path, usable: Sequence[Prompt]) -> set[str]:
    """Return digests of the prompts that RL steps evaluate on: of all in their file, and of those that can be used
    here, as an RL step sets too long ones aside before it chooses."""
    if not (data / _RL_PROMPTS).is_file():
        return set()
    read = [Prompt(record["prompt"], []) for record in read_jsonl(data / _RL_PROMPTS)]
    every = list({prompt_digest(prompt.messages): prompt for prompt in read}.values())
    chosen = config.heldout or (HeldOut(seed=config.seed),)
    return {prompt_digest(prompt.messages) for held in chosen for prompts in (every, usable) if len(prompts) > 1
            for prompt in hold_out(prompts, held.limit, held.seed)[1]}  # fmt: skip


def _clean(prompts: Sequence[Prompt], curation: CurationConfig, benchmark: Sequence[Mapping[str, Any]],
           writers: JsonlWriters, unused: Unused) -> list[Prompt]:
    """Return the prompts without items of the benchmark, where `curation` looks for them."""
    filters = tuple(each for each in curation.filters if each.name == "decontamination")
    if not filters or not prompts:
        return list(prompts)
    named = [{"prompt": list(prompt.messages), "channel": prompt.fields.get("channel", "default"), "place": at}
             for at, prompt in enumerate(prompts)]  # fmt: skip
    chosen = curation.model_copy(update={"filters": filters})
    kept, _ = curate("prompts", named, chosen, benchmark, writers, "curation", "prompts")
    passed = {record["place"] for record in kept}
    for at, prompt in enumerate(prompts):
        if at not in passed:
            unused.add(prompt, "benchmark item")
    return [prompts[at] for at in sorted(passed)]


Record = dict[str, Any]
_SHOWN = 20  # prompts in the table of samples


@dataclass(frozen=True)
class Made:
    """The records, what the cleaning dropped of them, and the chosen answers by the number of their prompt."""

    records: list[Record]
    curation: Curation
    chosen: dict[int, list[Chosen]]


def make_records(config: SynthesisConfig, model: str, prompts: Sequence[Prompt], answers: Sequence[Sequence[Answer]],
                 benchmark: Sequence[Mapping[str, Any]], writers: JsonlWriters, unused: Unused,
                 missing: Mapping[int, str]) -> Made:
    """Choose of the answers to each prompt, and clean what comes of it.

    `model`: name of what answered. `missing`: why a prompt has no answer, by its number. Raises StepError: no prompt
    has a record; InputError: the cleaning drops all."""
    choose = METHODS[config.method].choose
    chosen: dict[int, list[Chosen]] = {}
    for at, (prompt, given) in enumerate(zip(prompts, answers, strict=True)):
        found = choose(config, given) if given else missing[at]
        if isinstance(found, str):
            best = max((each.value for each in given), default=None)
            unused.add(prompt, found, **({} if best is None or not config.rewards else {"best_reward": best}))
        else:
            chosen[at] = found
    if not chosen:
        raise StepError(f"none of {len(prompts)} prompts has a record: {unused.counts()}; lower threshold or margin, "
                        "raise n or max_new_tokens, or let a better model answer")
    records = [record_of(config, model, prompts[at], each) for at, found in chosen.items() for each in found]
    kept, curation = curate(config.kind, records, config.curation, benchmark, writers, "curation", "self-made records")
    return Made(kept, curation, chosen)


def record_of(config: SynthesisConfig, model: str, prompt: Prompt, chosen: Chosen) -> Record:
    """Return a record of instructions, or of preferences, with model, method, n, the answer's seed and its reward."""
    turns = [dict(message) for message in prompt.messages]
    channel, answer = prompt.fields.get("channel"), chosen.answer
    about: Record = {name: prompt.fields[name] for name in ("lang", "kind", "fact") if prompt.fields.get(name)}
    about |= {"channel": f"{config.stage}/{channel}" if channel else config.stage, "model": model,
              "method": config.method, "n": config.copies, "seed": answer.seed}
    about |= {} if answer.reward is None else {"reward": answer.reward}
    if chosen.rejected is None:
        return {"messages": [*turns, *assistant(answer.text)], **about}
    return {"prompt": turns, "chosen": assistant(answer.text), "rejected": assistant(chosen.rejected.text), **about,
            "rejected_reward": chosen.rejected.value, "rejected_seed": chosen.rejected.seed, "margin": chosen.margin}


def write_records(config: SynthesisConfig, data: Path, made: Sequence[Record], out: Path, writers: JsonlWriters) -> int:
    """Write the records and `data_share` of the data step's own, in an order by `seed`, and beside them its held-out
    file, which training is evaluated on. Returns the number of own records."""
    count = round(len(made) * config.data_share / (1 - config.data_share))
    there = list(read_jsonl(data / f"{config.kind}.jsonl")) if count else []
    own = []
    for at in range(count if there else 0):
        turn, place = divmod(at, len(there))  # each comes once before one comes twice
        own.append(there[permuted_index(place, len(there), derive_seed("own", config.seed, turn))])
    writers.write_all(config.kind, [*made, *own])
    heldout = data / f"{config.kind}_heldout.jsonl"
    if heldout.is_file():
        shutil.copyfile(heldout, out / heldout.name)
    return len(own)


def table_rows(prompts: Sequence[Prompt], answers: Sequence[Sequence[Answer]], made: Made) -> list[Record]:
    """Return rows of a table of samples: for prompts from all over, the best and worst answer, and the choice."""
    rows: list[Record] = []
    step = max(1, len(prompts) // _SHOWN)
    for at in range(0, len(prompts), step):
        ordered = sorted(answers[at], key=lambda answer: -answer.value)
        learnt = {id(each.answer) for each in made.chosen.get(at, [])}
        for end, answer in zip(("best", "worst"), (ordered[:1] + ordered[1:][-1:]), strict=False):
            reasons = "; ".join(f"{name}: {text}" for name, text in answer.reasons.items() if text)
            rows.append({"step": 0, "end": end, "prompt": as_text(prompts[at].messages), "answer": answer.text,
                         "reward": answer.reward, "chosen": id(answer) in learnt, "ended": answer.ended,
                         **{f"reward/{name}": value for name, value in answer.parts.items()}, "reasons": reasons})
    return rows


def metrics_of(config: SynthesisConfig, answers: Sequence[Sequence[Answer]], made: Made) -> dict[str, float]:
    """Return shares and means over prompts, answers and records, as <stage>/NAME."""
    every = [answer for row in answers for answer in row]
    learnt = [each for found in made.chosen.values() for each in found]
    values = {"records": float(len(made.records)), "prompts_with_record": len(made.chosen) / len(answers),
              "ended": fmean(answer.ended for answer in every), "characters": fmean(len(each.text) for each in every)}
    if config.rewards:
        values["reward"] = fmean(answer.value for answer in every)
        values["reward/chosen"] = fmean(each.answer.value for each in learnt)
        values["reward/best"] = fmean(max(answer.value for answer in row) for row in answers if row)
        values |= {f"reward/{name}": fmean(answer.parts[name] for answer in every) for name in every[0].parts}
    if config.kind == PREFERENCES:
        values["margin"] = fmean(each.margin for each in learnt)
    return {f"{config.stage}/{name}": value for name, value in values.items()}
