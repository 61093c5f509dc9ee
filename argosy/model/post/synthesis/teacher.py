"""Answers of a teacher behind a URL; each reply is kept as it comes, and none is requested twice."""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from argosy.core.errors import InputError, StepError
from argosy.core.step.contract import StepContext
from argosy.core.store.step_files import STATE
from argosy.corpus.data.schemas import ParseError, parse_record, turns_of
from argosy.model.infer.chat_api import ChatApi, Reply
from argosy.model.infer.workers import Journal, key_of
from argosy.model.post.rl.reward import Prompt, Sample
from argosy.model.post.rl.rewards import WeightedRewards
from argosy.model.post.synthesis.answers import reencoded, rewarded, seeds_of
from argosy.model.post.synthesis.config import SynthesisConfig
from argosy.model.post.synthesis.methods import Answer

_SEEDS = 2**31  # servers take seeds of 32 bits with a sign


@dataclass
class Taught:
    """A teacher's answers.

    Attributes:
        answers: to each prompt, those that there are.
        missing: why a prompt has no answer, by its number."""

    answers: list[list[Answer]]
    missing: dict[int, str] = field(default_factory=dict)


def ask_teacher(
    config: SynthesisConfig, context: StepContext, prompts: Sequence[Prompt], rewards: WeightedRewards | None,
    tokenizer: Any,
) -> Taught:
    """Request `n` answers to each prompt.

    `tokenizer`: of the reward model, or None. Raises InputError: the server refuses the key, or has no such model;
    StepError: it gave too few replies."""
    key = os.environ.get(config.teacher_key_variable, "")
    api = ChatApi(config.teacher_url, config.teacher_model, key, config.teacher_parallel, choosy=True)
    seeds = [[seed % _SEEDS for seed in seeds_of(config, prompt)] for prompt in prompts]
    requests = [_request(config, prompt, seed) for prompt, row in zip(prompts, seeds, strict=True) for seed in row]
    most = len(requests) * config.max_new_tokens
    print(f"{len(requests):,} requests to {api.name}, of at most {most:,} tokens of answers", flush=True)
    replies = _replies(config, context, api, requests)
    _check_replies(config, api, replies)
    taught = Taught(_answers(config, prompts, replies, seeds, rewards, tokenizer))
    for at in range(len(prompts)):
        if not taught.answers[at]:
            row = replies[at * config.copies : (at + 1) * config.copies]
            taught.missing[at] = ("beyond teacher_budget" if None in row else "refused by the teacher"
                                  if all(each and each.refused for each in row) else "no reply")
    return taught


def _check_replies(config: SynthesisConfig, api: ChatApi, replies: Sequence[Reply | None]) -> None:
    """Check that there are replies, and that few requests stayed without one. Raises StepError: it is not so."""
    without = Counter(reply.problem for reply in replies if reply and reply.text is None)
    failed = sum(reply is not None and reply.text is None and not reply.refused for reply in replies)
    why = "; ".join(f"{count} x {problem}" for problem, count in without.most_common(3))
    if without.total() == len(replies):
        raise StepError(f"{api.name} gave none of {len(replies)} replies ({why}): see that it runs and what it takes, "
                        "and run this again")
    if failed > config.teacher_missing * len(replies):
        raise StepError(f"{failed} of {len(replies)} requests to {api.name} stayed without a reply ({why}), more than "
                        f"teacher_missing={config.teacher_missing} allows; run this again: it sends those alone")
    if without:
        print(f"{without.total():,} of {len(replies):,} requests have no reply: {why}", flush=True)


def plain_parser(problem: Callable[[dict[str, Any]], str]) -> Callable[[dict[str, Any]], Prompt]:
    """Return a function that makes a Prompt of a JSON record without a tokenizer, or raises ParseError.

    `problem`: says why rewards cannot judge answers to a prompt with these fields, or ""."""

    def parse(record: dict[str, Any]) -> Prompt:
        (messages,) = turns_of("prompts", record, "prompt")
        fields = {name: value for name, value in parse_record("prompts", record).items() if name != "prompt"}
        if reason := problem(fields):
            raise ParseError(reason)
        return Prompt(messages, [], fields)

    return parse


def _request(config: SynthesisConfig, prompt: Prompt, seed: int) -> dict[str, Any]:
    messages = [{"role": message["role"], "content": message["content"]} for message in prompt.messages]
    return {"messages": messages, "temperature": config.temperature, "max_tokens": config.max_new_tokens, "seed": seed}


def _replies(
    config: SynthesisConfig, context: StepContext, api: ChatApi, requests: Sequence[Mapping[str, Any]]
) -> list[Reply | None]:
    """Collect the replies that are kept, and those to the other requests; None: beyond the budget."""
    journal = Journal(context.out / STATE / "replies")
    keys = [key_of("reply", (api.name, sorted(request.items()))) for request in requests]
    found: list[Reply | None] = [Reply(**kept) if (kept := journal.get(key)) else None for key in keys]
    missing = [at for at, reply in enumerate(found) if reply is None]

    used = sum(reply.tokens for reply in found if reply)

    def spent() -> bool:
        return 0 < config.teacher_budget <= used

    def save(index: int, reply: Reply) -> None:
        nonlocal used
        at = missing[index]
        found[at] = reply
        used += reply.tokens
        if reply.text is not None:
            journal.put(keys[at], {"text": reply.text, "cut": reply.cut, "tokens": reply.tokens})
        context.progress.update(len(requests) - len(missing) + index + 1, len(requests), "replies")

    if not spent():
        try:
            api.request_all([requests[at] for at in missing], save, spent)
        except InputError as error:
            raise InputError(f"teacher {error}") from None
    return found


def _answers(
    config: SynthesisConfig, prompts: Sequence[Prompt], replies: Sequence[Reply | None], seeds: Sequence[Sequence[int]],
    rewards: WeightedRewards | None, tokenizer: Any,
) -> list[list[Answer]]:
    """Return the replies as answers to each prompt, with their rewards."""
    numbers = [(at, seed) for at, row in enumerate(seeds) for seed in row]
    there = [(at, seed, reply, reply.text) for (at, seed), reply in zip(numbers, replies, strict=True)
             if reply is not None and reply.text is not None]  # fmt: skip
    samples = [Sample(prompts[at], [], text.strip(), not reply.cut) for at, _, reply, text in there]
    if tokenizer is not None:
        samples = [reencoded(each, tokenizer) for each in samples]
    found = rewarded(samples, [seed for _, seed, *_ in there], rewards, [0] * len(there))
    answers: list[list[Answer]] = [[] for _ in prompts]
    for (at, *_), answer in zip(there, found, strict=True):
        answers[at].append(answer)
    return answers
