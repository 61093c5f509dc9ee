"""The share of an answer's words that are in the prompt's `language` (language consistency, DeepSeek-AI 2025,
"DeepSeek-R1", sec. 2.3.2): Han characters for zh, words in Latin letters for en; 0 for another language of that script.

Code, addresses and numbers count nothing."""

import re
from typing import Literal

from argosy.corpus.text.scripts import HAN, identify, without_markup
from argosy.model.post.rl.rewards import Reward, RewardConfig, Sample, Score

_WORD = re.compile(rf"(?P<zh>[{HAN}])|(?P<en>[a-zA-Z]+(?![^\W\d_{HAN}]))|[^\W\d_{HAN}]+")


class LanguageConfig(RewardConfig):
    language: Literal["", "en", "zh"] = ""
    """Language for prompts that name none."""


class Language(Reward[LanguageConfig]):
    checks = "language"

    def score(self, sample: Sample, reference: str) -> Score:
        kinds = [found.lastgroup for found in _WORD.finditer(without_markup(sample.text))]
        if not kinds:
            return Score(0.0, "no words")
        share = kinds.count(reference) / len(kinds)
        other = identify(sample.text)
        if share > 0.5 and other not in ("", "en", "zh"):
            return Score(0.0, f"its language is {other}")
        return Score(share, f"{share:.0%} of the words are {reference}")
