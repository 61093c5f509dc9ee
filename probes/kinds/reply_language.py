"""The language in which an answer is about to begin, against that of its question."""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

from pydantic import Field

from argosy.core.lazy import torch
from argosy.core.statistics.intervals import mean
from argosy.core.statistics.metric import Metric, probability, share
from argosy.evidence.results.items import digest
from argosy.model.infer.encoder import token_bytes
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.rows import NO_NUMBER
from probes.kinds import Measurement, PromptProbe, Scope

HAN = range(0xE4, 0xEA)  # first UTF-8 bytes of U+4000..U+9FFF: Chinese characters


class ReplyLanguage(PromptProbe):
    """Probability that the answer's first letter is Chinese, or Latin.

    Summed over all tokens by their first byte that is no space, pieces of a Chinese character among them; where a token
    is spaces alone, over what follows the likeliest such token too.
    Measures: same (mean share of the question's language among both), acc (share > 1/2), zh and en (the share of their
    own language after questions in Chinese, English), letters (probability that the answer begins with a letter of
    either at all: the rest is digits, punctuation, other scripts)."""

    kind: ClassVar[str] = "reply_language"
    declared: ClassVar[Mapping[str, Metric]] = {
        "same": probability(), "zh": probability(), "en": probability(), "acc": share(),
        "letters": probability("neither")}  # fmt: skip
    zh: tuple[str, ...] = Field(min_length=1)
    en: tuple[str, ...] = Field(min_length=1)

    def measure(self, model: LanguageModel, scope: Scope) -> Measurement:
        """Compute one distribution a question, and one more behind a space."""
        result = Measurement()
        turn = self.turn(model, scope)
        prompts = [(lang, prompt) for lang in ("zh", "en") for prompt in getattr(self, lang)[: scope.limit]]
        classes = _classes(model.tokenizer)
        contexts = model.encode([turn.prompt(prompt) for _, prompt in prompts])
        first = {index: _shares(values, classes) for index, values in model.scorer.next_token(contexts)}
        spaced = [(*tokens, first[index]["space"]) for index, tokens in enumerate(contexts) if classes["space"]]
        second = {index: _shares(values, classes) for index, values in model.scorer.next_token(spaced)}
        for index, (lang, prompt) in enumerate(prompts):
            a, b = first[index], second.get(index, {"zh": 0.0, "en": 0.0})
            both = {name: a[name] + a["space_prob"] * b[name] for name in ("zh", "en")}
            letters = both["zh"] + both["en"]
            if not math.isfinite(letters) or letters <= 0:
                result.left_out[NO_NUMBER] += 1
                continue
            share = both[lang] / letters
            result.rows.append({"id": f"{lang}/{index}", "lang": lang, "prompt": prompt, "same": share,
                               "asked": digest(prompt, self.plain),
                               "acc": share > 0.5, "letters": letters, "scores": [both["zh"], both["en"]]})
        if result.rows:
            result.add_means(("same", "acc", "letters"))
            for lang in ("zh", "en"):
                if own := [float(row["same"]) for row in result.rows if row["lang"] == lang]:
                    result.measures[lang] = mean(own)
        return result


@lru_cache(maxsize=4)
def _classes(tokenizer: Any) -> dict[str, list[int]]:
    """Sort token ids by their beginning: a Chinese letter, a Latin one, or nothing but spaces."""
    result: dict[str, list[int]] = {"zh": [], "en": [], "space": []}
    for index, token in enumerate(token_bytes(tokenizer).of):
        if not token:
            continue
        text = token.lstrip(b" \t\r\n")
        if not text:
            result["space"].append(index)
        elif text[0] in HAN:
            result["zh"].append(index)
        elif chr(text[0]).isascii() and chr(text[0]).isalpha():
            result["en"].append(index)
    return result


def _shares(logprobs: "torch.Tensor", classes: dict[str, list[int]]) -> dict[str, Any]:
    """Sum the probability of each class; `space`: the likeliest token of spaces, and its probability."""
    probs = logprobs.double().exp()
    result: dict[str, Any] = {name: float(probs[classes[name]].sum()) for name in ("zh", "en")}
    if not classes["space"]:
        return {**result, "space": 0, "space_prob": 0.0}
    space = classes["space"][int(probs[classes["space"]].argmax())]
    return {**result, "space": space, "space_prob": float(probs[space])}
