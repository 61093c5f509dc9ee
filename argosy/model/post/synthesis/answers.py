"""Answers to prompts, with their rewards: of a model on this machine, batch by batch, or of a teacher behind a URL.

A kill loses one batch, and each reply is kept as it comes. Batches are planned before the first is sampled, from all
prompts: so what is in a batch, and with it every last digit, is the same whatever number of processes samples them."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

import torch

from argosy.core.errors import InputError, StepError
from argosy.core.step.contract import StepContext
from argosy.core.store.step_files import STATE
from argosy.corpus.data.schemas import Message, ParseError
from argosy.corpus.data.split import derive_seed
from argosy.model.infer.chat_api import ChatApi, Reply
from argosy.model.infer.decode import TransformersDecoder
from argosy.model.infer.logprobs import by_length
from argosy.model.infer.work import Journal, key_of
from argosy.model.post.rl.prompts import make_samples
from argosy.model.post.rl.rewards import Prompt, Sample, WeightedRewards
from argosy.model.post.stage import Source, fitted, open_source
from argosy.model.post.synthesis import SynthesisConfig
from argosy.model.post.synthesis.methods import Answer
from argosy.model.post.synthesis.records import prompt_digest
from argosy.model.train.parallelism import Group
from argosy.model.weights.chat import check_template, encode_answer, end_tokens
from argosy.model.weights.checkpoint import find_checkpoint
from argosy.model.weights.pretrained import load_config, load_tokenizer


def seeds_of(config: SynthesisConfig, prompt: Prompt) -> list[int]:
    """Return the seeds of the answers to a prompt, by its text: they are the same in whatever file it stands."""
    digest = prompt_digest(prompt.messages)
    return [derive_seed("synthesis", config.seed, digest, copy) for copy in range(config.copies)]


def open_model(config: SynthesisConfig, directory: str, device: Any) -> Source:
    """Open the model that answers: the one in `directory`, where a teacher has one, else the checkpoint. Raises
    InputError: it cannot be continued, has no chat template, or its context is shorter than `max_length`."""
    if not directory:
        return fitted(open_source("checkpoint", config.checkpoint, device), config.template, config.max_length)
    found = find_checkpoint(directory)
    tokenizer, configured = load_tokenizer(found.path), load_config(found.path)
    if not config.template:
        check_template(tokenizer)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    ends = end_tokens(tokenizer, chat=bool(tokenizer.chat_template), configured=configured.eos_token_id)
    source = Source(found.path, tokenizer, found.tokens, configured.max_position_embeddings, ends, device)
    return fitted(source, config.template, config.max_length)


class Answering:
    """A model that answers prompts in planned batches.

    Args:
        foreign: tokenizer of the reward model, where it is another one's than the model's; None: it is the same."""

    def __init__(self, config: SynthesisConfig, context: StepContext, group: Group, source: Source,
                 rewards: WeightedRewards | None, foreign: Any = None) -> None:
        self._config, self._context, self._group, self._source = config, context, group, source
        self._rewards, self._foreign = rewards, foreign

    @cached_property
    def _model(self) -> Any:
        return self._source.causal_model().eval()  # of a run that goes on, perhaps nothing is left to be sampled

    def answer(self, prompts: Sequence[Prompt]) -> list[list[Answer]]:
        """Return the answers to each prompt, in the order of their numbers; every process has all of them."""
        together = max(1, self._config.generation_batch_size // self._config.copies)
        batches = list(by_length([prompt.ids for prompt in prompts], together))
        own = batches[self._group.rank :: self._group.world]
        journal = Journal(self._context.out / STATE / f"answers-{self._group.rank}")
        found: dict[int, list[Answer]] = {}
        for places in own:
            batch = [prompts[place] for place in places]
            seeds = [seeds_of(self._config, prompt) for prompt in batch]
            key = key_of("answers", [(prompt.ids, row) for prompt, row in zip(batch, seeds, strict=True)])
            rows = journal.get(key)
            if rows is None:
                rows = [[asdict(answer) for answer in answers] for answers in self._sampled(batch, seeds)]
                journal.put(key, rows)
            found |= {place: [Answer(**each) for each in row] for place, row in zip(places, rows, strict=True)}
            self._context.progress.update(len(found) * self._group.world, len(prompts), "prompts")
        every = {place: row for part in self._group.gathered(found) for place, row in part.items()}
        return [every[place] for place in range(len(prompts))]

    def _sampled(self, prompts: Sequence[Prompt], seeds: Sequence[Sequence[int]]) -> list[list[Answer]]:
        config, source = self._config, self._source
        rows = config.copies * len(prompts)
        decoding = replace(source.decoding(config.max_new_tokens, config.temperature), batch_size=rows, scored=False)
        decoder = TransformersDecoder(self._model, dtype=getattr(torch, config.dtype))
        ids = decoder([prompt.ids for prompt in prompts], seeds, decoding).tokens
        asked = [prompt for prompt in prompts for _ in range(config.copies)]
        samples = make_samples(source.tokenizer, asked, ids, source.stop_ids)
        if self._foreign is not None:
            samples = [reencoded(each, self._foreign) for each in samples]
        answers = rewarded(samples, [seed for row in seeds for seed in row], self._rewards, [len(each) for each in ids])
        return [answers[at : at + config.copies] for at in range(0, rows, config.copies)]


def reencoded(given: Sample, tokenizer: Any) -> Sample:
    """Return a sample in the token ids of another tokenizer, in its chat template. Raises InputError: that template
    refuses it."""
    said: Message = {"role": "assistant", "content": given.text}
    try:
        prompt, ids = encode_answer(tokenizer, given.prompt.messages, [said])
    except ParseError as error:
        raise InputError(f"reward_model cannot judge an answer: {error}") from None
    ended = ids[len(prompt) :]
    if not given.ended and ended and ended[-1] in end_tokens(tokenizer):
        ended.pop()
    return replace(given, prompt=replace(given.prompt, ids=prompt), answer_ids=ended)


def rewarded(samples: Sequence[Sample], seeds: Sequence[int], rewards: WeightedRewards | None,
             tokens: Sequence[int]) -> list[Answer]:
    """Return samples as answers, with their rewards where there are any. `tokens`: of each answer."""
    if rewards is None:
        return [Answer(each.text, each.ended, count, seed=seed)
                for each, seed, count in zip(samples, seeds, tokens, strict=True)]  # fmt: skip
    found = rewards(samples)

    def at(columns: Mapping[str, Sequence[Any]], row: int) -> dict[str, Any]:
        return {name: column[row] for name, column in columns.items()}

    return [Answer(each.text, each.ended, tokens[row], found.totals[row], at(found.parts, row), at(found.reasons, row),
                   seeds[row]) for row, each in enumerate(samples)]  # fmt: skip


_SEEDS = 2**31  # servers take seeds of 32 bits with a sign


def ask_teacher(config: SynthesisConfig, context: StepContext, prompts: Sequence[Prompt],
                rewards: WeightedRewards | None, tokenizer: Any) -> tuple[list[list[Answer]], dict[int, str]]:
    """Request `n` answers to each prompt; returns those that there are, and why a prompt has none, by its number.

    `tokenizer`: of the reward model, or None. Raises InputError: the server refuses the key, or has no such model;
    StepError: it gave too few replies."""
    key = os.environ.get(config.teacher_key_variable, "")
    api = ChatApi(config.teacher_url, config.teacher_model, key, config.teacher_parallel, choosy=True)
    seeds = [[seed % _SEEDS for seed in seeds_of(config, prompt)] for prompt in prompts]
    requests = [{"messages": [{"role": message["role"], "content": message["content"]} for message in prompt.messages],
                 "temperature": config.temperature, "max_tokens": config.max_new_tokens, "seed": seed}
                for prompt, row in zip(prompts, seeds, strict=True) for seed in row]  # fmt: skip
    most = len(requests) * config.max_new_tokens
    print(f"{len(requests):,} requests to {api.name}, of at most {most:,} tokens of answers", flush=True)
    replies = _replies(config, context, api, requests)
    _check_replies(config, api, replies)
    answers, missing = _answers(prompts, replies, seeds, rewards, tokenizer), {}
    for at in (at for at, given in enumerate(answers) if not given):
        row = replies[at * config.copies : (at + 1) * config.copies]
        missing[at] = ("beyond teacher_budget" if None in row else "refused by the teacher"
                       if all(each and each.refused for each in row) else "no reply")
    return answers, missing


def _check_replies(config: SynthesisConfig, api: ChatApi, replies: Sequence[Reply | None]) -> None:
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


def _replies(config: SynthesisConfig, context: StepContext, api: ChatApi,
             requests: Sequence[Mapping[str, Any]]) -> list[Reply | None]:
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


def _answers(prompts: Sequence[Prompt], replies: Sequence[Reply | None], seeds: Sequence[Sequence[int]],
             rewards: WeightedRewards | None, tokenizer: Any) -> list[list[Answer]]:
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
