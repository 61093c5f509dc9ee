"""The answers of a checkpoint to prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from argosy.evaluation.language_model import LanguageModel
from argosy.judging.records import Answer, Prompt
from argosy.posttraining.generation import Decoding, generate


def answers_of(
    model: LanguageModel, prompts: Sequence[Prompt], *, chat: bool, max_new_tokens: int, temperature: float, seed: int
) -> list[Answer]:
    """One answer a prompt, in their order; greedy at temperature 0.

    Args:
        chat: whether a prompt is a user's turn in the chat template; else the model goes on with its text.
    """
    texts = [model.chat(prompt.text) if chat else prompt.text for prompt in prompts]
    longest = max(1, model.max_length - max_new_tokens)
    whole = model.encode(texts)
    model.scorer.cut += sum(len(tokens) > longest for tokens in whole)
    ids = [list(tokens or (model.prefix_token,))[-longest:] for tokens in whole]
    stops = stop_ids(model, chat=chat)
    pad = model.tokenizer.pad_token_id
    decoding = Decoding(stops, stops[0] if pad is None else int(pad), max_new_tokens, temperature, seed, batch_size=16)
    found = generate(model.model, ids, decoding)
    return [_answer(model, prompt, tokens, stops) for prompt, tokens in zip(prompts, found, strict=True)]


def stop_ids(model: LanguageModel, *, chat: bool) -> list[int]:
    """Tokens that end an answer: those of the model's generation config, EOS, and in a chat what ends a turn."""
    configured: Any = getattr(model.model.generation_config, "eos_token_id", None)
    found = set(configured if isinstance(configured, list) else [configured]) | {model.tokenizer.eos_token_id}
    if chat:
        found.add(_end_of_turn(model))
    return sorted(token for token in found if token is not None) or [model.prefix_token]


def _end_of_turn(model: LanguageModel) -> int | None:
    """The first special token that the template puts behind an assistant's words."""
    word = "xyzzy"  # in no template
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": word}]
    whole: str = model.tokenizer.apply_chat_template(messages, tokenize=False)
    tail = model.encode([whole.rpartition(word)[2]], special=False)[0]
    special = {token for token, added in model.tokenizer.added_tokens_decoder.items() if added.special}
    return next((token for token in tail if token in special), None)


def _answer(model: LanguageModel, prompt: Prompt, tokens: Sequence[int], stops: Sequence[int]) -> Answer:
    ended = bool(tokens) and tokens[-1] in stops
    text = model.tokenizer.decode(tokens[:-1] if ended else tokens, skip_special_tokens=False)
    return Answer(prompt.id, text.strip(), ended)
