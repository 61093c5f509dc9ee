"""Recipes: the filters of published corpora, by name, with the thresholds of their papers; and Argosy's own.

`clean.filters: fineweb` is a recipe, and a list may name one among its filters, whose place its own take."""

from collections.abc import Mapping
from typing import Any

Given = tuple[str | dict[str, Any], ...]

# Of Gopher, Rae et al. 2021, A1.1; numbers that documents in Chinese would not reach are for words of English alone.
GOPHER_QUALITY: dict[str, Any] = {
    "name": "gopher_quality", "min_words": 50, "min_alphabetic_word_share": 0.8, "bullets": "•-",
    "stop_words": ("the", "be", "to", "of", "and", "that", "have", "with")
}
_FINEWEB_MINHASH: dict[str, Any] = {"name": "near_dedup", "bands": 14, "rows": 8, "shingle": 5}

RECIPES: Mapping[str, Given] = {
    # Repair before judging, cheap before costly, and duplicates last: of two copies the repaired one may be the later.
    "argosy": (
        "unicode",
        "boilerplate",
        "language",
        "gopher_quality",
        # Documentation and lists of facts repeat themselves more than the web that the paper's thresholds are for.
        {
            "name": "gopher_repetition", "max_line_share": 0.55, "max_paragraph_share": 0.45,
            "max_line_character_share": 0.40, "max_paragraph_character_share": 0.40,
            "top_ngrams": {2: 0.25, 3: 0.25, 4: 0.25},
            "duplicate_ngrams": {5: 0.40, 6: 0.38, 7: 0.36, 8: 0.34, 9: 0.32, 10: 0.30}
        },
        "gibberish",
        "toxicity",
        "decontamination",
        "pii",
        "exact_dedup",
        "near_dedup",
    ),
    # Rae et al. 2021, A1: English web text.
    "gopher": ({"name": "language", "allowed": ("en",)}, GOPHER_QUALITY, "gopher_repetition", "exact_dedup",
               {"name": "near_dedup", "similarity": 0.8}),
    # Raffel et al. 2020, 2.2: lines that are sentences, bad words, three sentences in a row that stand elsewhere.
    "c4": ({"name": "language", "allowed": ("en",)}, {"name": "c4_quality", "line_ends": ".?!\"'"}, "toxicity",
           "sentence_dedup"),
    # Penedo et al. 2024: datatrove's order; C4's rule of line ends is left out there.
    "fineweb": ({"name": "language", "allowed": ("en",), "least": {"en": 0.65}}, "gopher_repetition", GOPHER_QUALITY,
                {"name": "c4_quality", "line_ends": ""}, "fineweb_quality", _FINEWEB_MINHASH, "pii"),
    # After ChineseWebText (Chen et al. 2023), WanJuan (He et al. 2023) and CCI.
    "chinese": ("unicode", "boilerplate", {"name": "language", "allowed": ("zh",), "least": {"zh": 0.5}},
                "gopher_quality", "chinese_quality", "gopher_repetition", "toxicity", "decontamination", "pii",
                "exact_dedup", "near_dedup"),
    # After The Stack (Kocetkov et al. 2022) and StarCoder2 (Lozhkov et al. 2024).
    "code": ("unicode", {"name": "code_quality"}, "decontamination", "pii", "exact_dedup",
             {"name": "near_dedup", "similarity": 0.7}),
}  # fmt: skip
