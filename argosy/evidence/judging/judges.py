"""Judges: a checkpoint on this machine, or a server that speaks OpenAI's chat completions (OpenAI, vLLM, llama.cpp);
answers of two models, and all comparisons of them by one judge, in both orders: a kill loses no reply.

A judge gets a question about two answers to one prompt, in the prompt's language."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import yaml

from argosy.core.errors import InputError
from argosy.corpus.text.scripts import is_han
from argosy.evidence.judging.metrics import Verdict
from argosy.evidence.judging.records import Answer, Prompt
from argosy.model.infer.chat_api import ChatApi, Reply
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.work import Journal, key_of

LETTERS = ("A", "B")
CUE = "\n"
_WORDS: dict[str, dict[str, str]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
# A letter inside a sentence is no verdict: "A is worse than B" ends in B and means B, "A is better than B" does not.
_BARE = re.compile(r"[\W_]*([ABC])[\W_]*")
_VERDICT = re.compile(
    r"\W*(?:the )?(?:final )?(?:verdict|answer|choice|结论|答案|判断)(?: is|是|为)?[\W_]*([ABC])[\W_]*", re.IGNORECASE)


@dataclass(frozen=True)
class Comparison:
    """Two answers to a prompt; the judge reads `first` before `second`."""

    prompt: str
    first: str
    second: str


@dataclass(frozen=True)
class Preference:
    """A judge's reply to one comparison."""

    first: float | None
    """probability (0 to 1) that the first answer is better; None: the reply names none"""
    reason: str = ""
    """why there is none"""
    retryable: bool = False
    """whether a retry may give one (a server that was down)"""


Save = Callable[[int, Preference], None]


class Judge(Protocol):
    """Says which answer is better. It sees a comparison alone, and no names."""

    @property
    def name(self) -> str:
        """The judge's name in records."""

    def prefer(self, comparisons: Sequence[Comparison], save: Save) -> None:
        """Call `save(index, preference)` for every comparison, as soon as it is known, in any order. Raises InputError:
        the judge refuses every request (wrong key, no such model)."""


def question(comparison: Comparison, *, writes: bool) -> str:
    """Write the judge's prompt. One that `writes` its verdict may call the answers equal, and say why first."""
    lang = "zh" if is_han(comparison.prompt) else "en"
    text = _WORDS["prompt"][lang].format(prompt=comparison.prompt, first=comparison.first.strip(),
                                         second=comparison.second.strip(), tie=_WORDS["tie"][lang] if writes else "")
    return text + (_WORDS["reason"][lang] if writes else "")


def read_verdict(reply: str) -> float | None:
    """Read the letter of a reply: 1.0 for A, 0.0 for B, 0.5 for C. It is the reply alone, or its last line, or that
    line says the verdict in the form that the question names. None for any other reply, whatever letters it has."""
    lines = [line for line in reply.splitlines() if line.strip()]
    letter = (_BARE.fullmatch(lines[-1]) or _VERDICT.fullmatch(lines[-1])) if lines else None
    return {"A": 1.0, "B": 0.0, "C": 0.5}[letter[1].upper()] if letter else None


@dataclass(frozen=True)
class CheckpointJudge:
    """A judge that is a language model."""

    model: LanguageModel
    chat: bool
    """whether the question is a user's turn in its chat template"""
    name: str

    def prefer(self, comparisons: Sequence[Comparison], save: Save) -> None:
        """Compute P(A) / (P(A) + P(B)) after each question. A question that is longer than the context has no answer:
        cut at its left it would be another one."""
        pairs = [pair for comparison in comparisons for pair in self._requests(comparison)]
        items = [n // 2 for n in range(len(pairs))]
        scores = self.model.loglikelihood(pairs, items)
        encoded = self.model.encode_pairs(pairs, items)
        for index in range(len(comparisons)):
            a, b = (scores[2 * index + place].logprob for place in range(2))
            longest = max(len(encoded[2 * index + place][0]) for place in range(2))
            if longest > self.model.max_length:
                save(index, Preference(None, f"longer than the judge's context of {self.model.max_length} tokens"))
            elif not math.isfinite(a) or not math.isfinite(b):
                save(index, Preference(None, "the judge's probabilities are not numbers"))
            else:
                save(index, Preference(1 / (1 + math.exp(min(700.0, b - a)))))

    def _requests(self, comparison: Comparison) -> list[tuple[str, str]]:
        text = question(comparison, writes=False)
        if self.chat:
            return [(self.model.chat(text), self.model.answer(letter)) for letter in LETTERS]
        return [(text + CUE, letter) for letter in LETTERS]


@dataclass(frozen=True)
class ChatApiJudge:
    """A judge that a server runs."""

    api: ChatApi
    max_tokens: int = 16
    """tokens of a reply; models that reason first need many"""

    @property
    def name(self) -> str:
        """Model and address."""
        return self.api.name

    def prefer(self, comparisons: Sequence[Comparison], save: Save) -> None:
        """Request a reply to each, some at a time. Raises InputError: the server will not answer any request: wrong
        address, key or model."""
        requests = [{"temperature": 0, "max_tokens": self.max_tokens, "seed": 0,
                     "messages": [{"role": "user", "content": question(comparison, writes=True)}]}
                    for comparison in comparisons]  # fmt: skip
        try:
            self.api.request_all(requests, lambda index, reply: save(index, _preference(reply)))
        except InputError as error:
            raise InputError(f"judge {error}") from None


def _preference(reply: Reply) -> Preference:
    if reply.text is None:
        return Preference(None, f"the judge {reply.problem}", retryable=True)
    verdict = read_verdict(reply.text)
    if verdict is not None:
        return Preference(verdict)
    cut = " within its limit of tokens (judge_tokens)" if reply.cut else ""
    return Preference(None, f"the judge's reply names no answer{cut}")


NO_ANSWER = "one of the two has no answer"
FORWARD, BACKWARD = "forward", "backward"
Key = tuple[str, str]  # id of a prompt, order


def answers_of(model: LanguageModel, prompts: Sequence[Prompt], *, chat: bool, max_new_tokens: int, temperature: float,
               seed: int) -> list[Answer]:
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


def ask(judge: Judge, prompts: Sequence[Prompt], first: Mapping[str, Answer], second: Mapping[str, Answer], kept: Path,
        progress: Callable[[int, int], None]) -> Judgements:
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


def _replies(judge: Judge, comparisons: Mapping[Key, Comparison], kept: Path,
             progress: Callable[[int, int], None]) -> dict[Key, Preference]:
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
