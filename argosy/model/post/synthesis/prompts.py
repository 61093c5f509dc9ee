"""The prompts that are answered: those of the data step, without what evaluations hold out."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError
from argosy.corpus.cleaning.records import CurationConfig, curate
from argosy.corpus.data.jsonl import JsonlWriters, read_jsonl
from argosy.corpus.data.rejects import Rejects, read_records
from argosy.corpus.data.schemas import Message, ParseError, turns_of
from argosy.model.post.rl.prompts import hold_out
from argosy.model.post.rl.reward import Prompt
from argosy.model.post.synthesis.config import HeldOut, SynthesisConfig

HELD_OUT_FILES = ("instructions_heldout.jsonl", "preferences_heldout.jsonl", "feedback_heldout.jsonl")
_RL_PROMPTS = "prompts.jsonl"  # of which RL steps hold some out
_KINDS = {"prompts.jsonl": "prompts", "instructions.jsonl": "instructions", "preferences.jsonl": "preferences"}
_TEXTS = ("prompt", "messages", "chosen", "rejected")
Parse = Callable[[dict[str, Any]], Prompt]


@dataclass
class Unused:
    """Prompts that make no record, with the reason and what there is to say of them."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, prompt: Prompt, reason: str, **more: Any) -> None:
        """Add a prompt."""
        self.rows.append({"prompt": list(prompt.messages), "reason": reason, **more})

    def counts(self) -> dict[str, int]:
        """Count them by reason, in the order of the reasons' names."""
        return dict(sorted(Counter(row["reason"] for row in self.rows).items()))


def kind_of(file: str) -> str:
    """Return the kind of the records of a file of the data step. Raises InputError: it has no prompts to answer."""
    if file not in _KINDS:
        raise InputError(f"prompts={file!r}, allowed: {', '.join(_KINDS)}")
    return _KINDS[file]


def read_prompts(
    config: SynthesisConfig, data: Path, parse: Parse, benchmark: Sequence[Mapping[str, Any]], writers: JsonlWriters,
    rejects: Rejects,
) -> tuple[list[Prompt], Unused]:
    """Return the prompts to answer, each once, and those that are left out, with the reason.

    Args:
        parse: makes a prompt of a record {"prompt": messages, and its other fields}, or raises ParseError.
        benchmark: items {"question", "choices"} that no evaluation's model may learn.

    Raises InputError: none is left."""
    kind = kind_of(config.prompts)
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
    """Return a record of the kind `kind` as one of a prompt, which a conversation is up to its last answer.

    Raises ParseError: it has none."""
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
