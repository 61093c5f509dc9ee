"""Answers of two models, and all comparisons of them by one judge, in both orders; a kill loses no reply."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from argosy.evidence.judging.judges import Comparison, Judge, Preference
from argosy.evidence.judging.metrics import Verdict
from argosy.evidence.judging.records import Answer, Prompt
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.workers import Journal, key_of

NO_ANSWER = "one of the two has no answer"
FORWARD, BACKWARD = "forward", "backward"
Key = tuple[str, str]  # id of a prompt, order


def answers_of(
    model: LanguageModel, prompts: Sequence[Prompt], *, chat: bool, max_new_tokens: int, temperature: float, seed: int
) -> list[Answer]:
    """Let a model answer prompts; greedy at temperature 0.

    `chat`: whether a prompt is a user's turn in the chat template; else the model goes on with its text."""
    texts = [model.chat(prompt.text) if chat else prompt.text for prompt in prompts]
    most = min(max_new_tokens, max(1, model.max_length - 1))
    answers = model.generate_tokens(texts, model.ends(chat=chat), most, temperature=temperature, seed=seed)
    return [Answer(prompt.id, model.tokenizer.decode(tokens, skip_special_tokens=False).strip(), len(tokens) < most)
            for prompt, tokens in zip(prompts, answers, strict=True)]  # fmt: skip


class Judgements(NamedTuple):
    """Verdicts of a judge, and the prompts without one."""

    verdicts: list[Verdict]
    left_out: Counter[str]
    """prompts without a verdict, by reason"""
    retryable: Counter[str]
    """prompts of `left_out` that may get one on a retry"""
    prompts: int
    """number of prompts that the judge was given"""


def ask(
    judge: Judge, prompts: Sequence[Prompt], first: Mapping[str, Answer], second: Mapping[str, Answer], kept: Path,
    progress: Callable[[int, int], None],
) -> Judgements:
    """Judge the prompts that both models answered, in both orders; equal answers are a tie without the judge.

    `kept`: directory of the judge's replies; each is written as it comes, and none is requested twice. `progress`:
    is called with (replies so far, replies in all)."""
    both = [prompt for prompt in prompts if prompt.id in first and prompt.id in second]
    comparisons: dict[Key, Comparison] = {}
    for prompt in both:
        a, b = first[prompt.id].text, second[prompt.id].text
        if a.strip() != b.strip():
            comparisons[prompt.id, FORWARD] = Comparison(prompt.text, a, b)
            comparisons[prompt.id, BACKWARD] = Comparison(prompt.text, b, a)
    replies = _replies(judge, comparisons, kept, progress)
    judgements = Judgements([], Counter(), Counter(), len(comparisons) // 2)
    if missing := len(prompts) - len(both):
        judgements.left_out[NO_ANSWER] = missing
    for prompt in both:
        lengths = (len(first[prompt.id].text), len(second[prompt.id].text))
        if (prompt.id, FORWARD) not in comparisons:
            judgements.verdicts.append(Verdict(prompt.id, 0.5, 0.5, lengths, judged=False))
        else:
            _add(judgements, prompt.id, replies, lengths)
    return judgements


def _replies(
    judge: Judge, comparisons: Mapping[Key, Comparison], kept: Path, progress: Callable[[int, int], None]
) -> dict[Key, Preference]:
    """Collect replies that were kept before a kill, and those to the other comparisons; one that names no answer is
    requested again another time."""
    journal = Journal(kept)
    names = {key: key_of("reply", comparison) for key, comparison in comparisons.items()}
    replies = {key: Preference(first) for key, name in names.items() if (first := journal.get(name)) is not None}
    missing = [key for key in comparisons if key not in replies]

    def save(index: int, preference: Preference) -> None:
        key = missing[index]
        replies[key] = preference
        if preference.first is not None:
            journal.put(names[key], preference.first)
        progress(len(replies), len(comparisons))

    judge.prefer([comparisons[key] for key in missing], save)
    return replies


def _add(judgements: Judgements, name: str, replies: Mapping[Key, Preference], lengths: tuple[int, int]) -> None:
    """Add the verdict on a prompt, or why there is none; permanent reasons take precedence."""
    forward, backward = replies[name, FORWARD], replies[name, BACKWARD]
    if forward.first is not None and backward.first is not None:
        judgements.verdicts.append(Verdict(name, forward.first, 1 - backward.first, lengths))
        return
    failed = min((each for each in (forward, backward) if each.first is None), key=lambda each: each.retryable)
    judgements.left_out[failed.reason] += 1
    if failed.retryable:
        judgements.retryable[failed.reason] += 1
