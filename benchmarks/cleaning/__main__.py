"""Cleaning beside datatrove: `python -m benchmarks.cleaning`.

One process and one thread, the same text and the same rules. `*_default` is datatrove as it comes, with the words of
spaCy; `*_fastest` is datatrove with words by a regular expression. The last line is the figures as JSON: how many times
as fast ours is, or null with the reason, where a side is not installed or there is no text.

Each measure is a function of texts and rounds that gives figures; a further one is a further entry of `measures`."""

import argparse
import importlib.util
import json
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.cleaning import chain, data_juicer, filters
from benchmarks.cleaning.peer import repeated_texts

Measure = Callable[[list[str], int], dict[str, float]]
_BESIDE = {**{kind: partial(filters.ratio, kind) for kind in ("filters", "minhash")}, "chain": chain.ratio}
_SPACY_SHARE = 0.1  # of the text: spaCy takes a minute for some megabytes
_JUICER_SHARE = 0.2


def measures(name: str, data_juicer_python: str) -> dict[str, tuple[Measure, float, str]]:
    """Return by key of the figures what to measure, with which share of the text, and why that cannot be, if so."""
    if name == "two_workers":
        return {"two_workers": (chain.two_workers, 1.0, "")}
    if name == "data_juicer":
        absent = "" if data_juicer_python else "no interpreter with data-juicer is named: --data-juicer PYTHON"
        measure = partial(data_juicer.ratio, python=data_juicer_python)
        return {"minhash_data_juicer": (lambda texts, rounds: measure(texts, rounds=rounds), _JUICER_SHARE, absent)}
    ratio: Any = _BESIDE[name]
    return {
        f"{name}_fastest": (lambda texts, rounds: ratio(texts, "regex", rounds), 1.0, missing("datatrove")),
        f"{name}_default": (lambda texts, _: ratio(texts, "spacy", 1), _SPACY_SHARE,
                            missing("datatrove") or missing("spacy"))}


def missing(package: str) -> str:
    """Say that a package is not installed, or nothing."""
    return "" if importlib.util.find_spec(package) else f"{package} is not installed"


def main() -> None:
    """Measure what is asked for, or all; print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = (*_BESIDE, "two_workers", "data_juicer")
    parser.add_argument("measures", nargs="*", choices=[[], *known], help="what to measure; all by default")
    parser.add_argument("--megabytes", type=float, default=20, help="of text")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side, of which the median counts")
    parser.add_argument("--data-juicer", metavar="PYTHON", default="", help="an interpreter that has data-juicer")
    args = parser.parse_args()
    figures: dict[str, Any] = {}
    wanted = [measures(name, args.data_juicer) for name in args.measures or known]
    for key, (measure, share, reason) in ((key, each) for some in wanted for key, each in some.items()):
        texts = [] if reason else repeated_texts(share * args.megabytes)
        if not texts:
            figures |= {key: None, f"{key}_reason": reason or "no test data beside the checkout"}
            continue
        details = measure(texts, args.rounds)
        print(f"{key}: {details}", flush=True)
        figures |= {key: round(details["ratio"], 2), f"{key}_details": details}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
