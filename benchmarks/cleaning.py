"""Cleaning beside datatrove: `python -m benchmarks.cleaning`.

One process and one thread, the same text and the same rules. `*_default` is datatrove as it comes, with the words of
spaCy; `*_fastest` is datatrove with words by a regular expression. The last line is the figures as JSON: how many times
as fast ours is, or null with the reason, where a side is not installed or there is no text.

Each measure is a function of the arguments that gives figures; a further one is a further entry of MEASURES."""

import argparse
import importlib.util
import json
from collections.abc import Callable
from typing import Any

from benchmarks.cleaning_filters import Words, ratio, repeated_texts

_SPACY_SHARE = 0.2  # of the text: spaCy takes a minute for some megabytes
Figures = dict[str, Any]


def filters(arguments: argparse.Namespace) -> Figures:
    """Compare the filters of Gopher, C4 and FineWeb."""
    return compared("filters", arguments.megabytes, arguments.rounds, ratio, repeated_texts)


MEASURES: dict[str, Callable[[argparse.Namespace], Figures]] = {"filters": filters}


def compared(
    name: str, megabytes: float, rounds: int, measure: Callable[[list[str], Words, int], Any],
    texts: Callable[[float], list[str]]
) -> Figures:
    """Measure against datatrove with both kinds of words: `<name>_default`, `<name>_fastest`, `..._details` of both."""
    found: Figures = {}
    kinds: tuple[tuple[str, Words, float], ...] = (("fastest", "regex", 1.0), ("default", "spacy", _SPACY_SHARE))
    for kind, words, share in kinds:
        reason = missing("datatrove") or (missing("spacy") if words == "spacy" else "")
        some = [] if reason else texts(share * megabytes)
        if not some:
            found |= {f"{name}_{kind}": None, f"{name}_{kind}_reason": reason or "no test data beside the checkout"}
            continue
        details = measure(some, words, rounds)
        print(f"{name}, {words} words: {details}", flush=True)
        found |= {f"{name}_{kind}": round(details["ratio"], 2), f"{name}_{kind}_details": details}
    return found


def missing(package: str) -> str:
    """Say that a package is not installed, or nothing."""
    return "" if importlib.util.find_spec(package) else f"{package} is not installed"


def main() -> None:
    """Measure what is asked for, or all; print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measures", nargs="*", choices=[[], *MEASURES], help="what to measure; all by default")
    parser.add_argument("--megabytes", type=float, default=20, help="of text")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side, of which the median counts")
    arguments = parser.parse_args()
    figures: Figures = {}
    for name in arguments.measures or MEASURES:
        figures |= MEASURES[name](arguments)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
