"""Whether an answer is about to begin in the language of its question."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from argosy.evaluation.asked import digest
from argosy.evaluation.language_model import LanguageModel
from argosy.evaluation.token_bytes import token_bytes
from argosy.statistics.intervals import mean
from probes.probe import Measured, Probe, Scope
from probes.prompts import PLAIN, Turn

if TYPE_CHECKING:
    import torch

HAN = range(0xE4, 0xEA)  # first UTF-8 bytes of U+4000..U+9FFF: Chinese characters


class ReplyLanguage(Probe):
    """Probability that the answer's first letter is Chinese, or Latin.

    Summed over all tokens by their first byte that is no space, pieces of a Chinese character among them; where a token
    is spaces alone, over what follows the likeliest such token too.
    Measures: same (mean share of the question's language among both), acc (share > 1/2), zh and en (the share of their
    own language after questions in Chinese, English), letters (probability that the answer begins with a letter of
    either at all: the rest is digits, punctuation, other scripts).
    """

    kind: ClassVar[str] = "reply_language"
    zh: tuple[str, ...] = Field(min_length=1)
    en: tuple[str, ...] = Field(min_length=1)
    plain: str = Field(PLAIN, pattern=r"\{prompt\}")

    def measure(self, model: LanguageModel, scope: Scope) -> Measured:
        """One distribution a question, and one more behind a space."""
        found = Measured()
        turn = Turn(model, scope.chat, self.plain)
        asked = [(lang, prompt) for lang in ("zh", "en") for prompt in getattr(self, lang)[: scope.limit]]
        classes = _classes(model.tokenizer)
        contexts = model.encode([turn.prompt(prompt) for _, prompt in asked])
        first = {index: _shares(values, classes) for index, values in model.scorer.next_token(contexts)}
        spaced = [(*tokens, first[index]["space"]) for index, tokens in enumerate(contexts) if classes["space"]]
        second = {index: _shares(values, classes) for index, values in model.scorer.next_token(spaced)}
        for index, (lang, prompt) in enumerate(asked):
            a, b = first[index], second.get(index, {"zh": 0.0, "en": 0.0})
            both = {name: a[name] + a["space_prob"] * b[name] for name in ("zh", "en")}
            letters = both["zh"] + both["en"]
            if not math.isfinite(letters) or letters <= 0:
                found.left_out["not a number"] += 1
                continue
            share = both[lang] / letters
            found.rows.append({"id": f"{lang}/{index}", "lang": lang, "prompt": prompt, "same": share,
                               "asked": digest(prompt, self.plain),
                               "acc": share > 0.5, "letters": letters, "scores": [both["zh"], both["en"]]})
        if found.rows:
            _summarize(found)
        return found


def _summarize(found: Measured) -> None:
    for name in ("same", "acc", "letters"):
        found.measures[name] = mean([float(row[name]) for row in found.rows])
    for lang in ("zh", "en"):
        if own := [float(row["same"]) for row in found.rows if row["lang"] == lang]:
            found.measures[lang] = mean(own)


@lru_cache(maxsize=4)
def _classes(tokenizer: Any) -> dict[str, list[int]]:
    """Token ids by what they begin with: a Chinese letter, a Latin one, or nothing but spaces."""
    found: dict[str, list[int]] = {"zh": [], "en": [], "space": []}
    for index, token in enumerate(token_bytes(tokenizer).of):
        if not token:
            continue
        text = token.lstrip(b" \t\r\n")
        if not text:
            found["space"].append(index)
        elif text[0] in HAN:
            found["zh"].append(index)
        elif chr(text[0]).isascii() and chr(text[0]).isalpha():
            found["en"].append(index)
    return found


def _shares(logprobs: torch.Tensor, classes: dict[str, list[int]]) -> dict[str, Any]:
    """Probability of each class; `space`: the likeliest token of spaces, and its probability."""
    probs = logprobs.double().exp()
    found: dict[str, Any] = {name: float(probs[classes[name]].sum()) for name in ("zh", "en")}
    if not classes["space"]:
        return {**found, "space": 0, "space_prob": 0.0}
    space = classes["space"][int(probs[classes["space"]].argmax())]
    return {**found, "space": space, "space_prob": float(probs[space])}
