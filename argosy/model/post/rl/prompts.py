"""Prompts of reinforcement learning: read with what their rewards check, some held out; answers as samples, and tables
of them for people to read."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from argosy.core.errors import InputError
from argosy.core.step.contract import StepContext
from argosy.core.store.files import write_json
from argosy.corpus.data.schemas import Message, ParseError, parse_record, turns_of
from argosy.model.post.rl.rewards import Prompt, Sample
from argosy.model.weights.chat import check_length, encode_prompt

FILE = "samples.json"
_TAG = '[{"path": "samples.json", "type": "table"}]'  # has MLflow show the file as a table


def room_of_prompts(longest: int, max_new_tokens: int) -> int:
    """Return the tokens of the longest prompt. Raises InputError: the longest answer leaves none."""
    if (room := longest - max_new_tokens) < 1:
        raise InputError(f"max_new_tokens={max_new_tokens} leaves no room for a prompt in a context of {longest} "
                         "tokens; lower it")
    return room


def prompt_parser(
    tokenizer: Any, max_length: int, problem: Callable[[dict[str, Any]], str] = lambda fields: ""
) -> Callable[[dict[str, Any]], Prompt]:
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


def make_samples(
    tokenizer: Any, prompts: Sequence[Prompt], answers: Sequence[Sequence[int]], stop_ids: Sequence[int]
) -> list[Sample]:
    """Return samples of the answers (token ids) to the prompts."""
    texts = tokenizer.batch_decode([list(answer) for answer in answers], skip_special_tokens=True)
    return [
        Sample(prompt, answer, text.strip(), bool(answer) and answer[-1] in stop_ids)
        for prompt, answer, text in zip(prompts, answers, texts, strict=True)
    ]


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
