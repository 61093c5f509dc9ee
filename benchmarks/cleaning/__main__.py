"""Cleaning beside datatrove: `python -m benchmarks.cleaning`.

One process and one thread, the same text and the same rules. `*_default` is datatrove as it comes, with the words of
spaCy; `*_fastest` is datatrove with words by a regular expression. The last line is the figures as JSON: how many times
as fast ours is, or null with the reason, where a side is not installed or there is no text.

Each measure is a function of the arguments that gives figures; a further one is a further entry of MEASURES."""

import argparse
import importlib.util
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.cleaning import chain, data_juicer, filters, minhash, workers
from benchmarks.cleaning.peer import Words
from benchmarks.cleaning.texts import repeated_texts

_SPACY_SHARE = 0.1  # of the text: spaCy takes a minute for some megabytes
_JUICER_SHARE = 0.2
_NO_TEXT = "no test data beside the checkout"
Figures = dict[str, Any]
Measure = Callable[[list[str], Words, int], dict[str, float]]


def _chain(texts: list[str], words: Words, rounds: int) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        return chain.ratio(texts, words, rounds, Path(folder))


BESIDE: dict[str, Measure] = {"filters": filters.ratio, "minhash": minhash.ratio, "chain": _chain}


def beside(name: str, megabytes: float, rounds: int) -> Figures:
    """Measure against datatrove with both kinds of words: `<name>_default`, `<name>_fastest`, `..._details` of both."""
    found: Figures = {}
    kinds: tuple[tuple[str, Words, float, int], ...] = (
        ("fastest", "regex", 1.0, rounds), ("default", "spacy", _SPACY_SHARE, 1))
    for kind, words, share, turns in kinds:
        reason = missing("datatrove") or (missing("spacy") if words == "spacy" else "")
        some = [] if reason else repeated_texts(share * megabytes)
        if not some:
            found |= {f"{name}_{kind}": None, f"{name}_{kind}_reason": reason or _NO_TEXT}
            continue
        details = BESIDE[name](some, words, turns)
        print(f"{name}, {words} words: {details}", flush=True)
        found |= {f"{name}_{kind}": round(details["ratio"], 2), f"{name}_{kind}_details": details}
    return found


def two_workers(megabytes: float, rounds: int) -> Figures:
    """Measure two processes beside one."""
    texts = repeated_texts(megabytes)
    if not texts:
        return {"two_workers": None, "two_workers_reason": _NO_TEXT}
    details = workers.ratio(texts, rounds)
    print(f"two workers: {details}", flush=True)
    return {"two_workers": round(details["ratio"], 2), "two_workers_details": details}


def beside_data_juicer(megabytes: float, rounds: int, python: str) -> Figures:
    """Measure MinHash beside data-juicer's, where an interpreter is named that has it."""
    texts = repeated_texts(_JUICER_SHARE * megabytes)
    if not texts or not python:
        reason = _NO_TEXT if python else "no interpreter with data-juicer is named: --data-juicer PYTHON"
        return {"minhash_data_juicer": None, "minhash_data_juicer_reason": reason}
    details = data_juicer.ratio(texts, python, rounds)
    print(f"minhash, data-juicer: {details}", flush=True)
    return {"minhash_data_juicer": round(details["ratio"], 2), "minhash_data_juicer_details": details}


def missing(package: str) -> str:
    """Say that a package is not installed, or nothing."""
    return "" if importlib.util.find_spec(package) else f"{package} is not installed"


def main() -> None:
    """Measure what is asked for, or all; print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = (*BESIDE, "two_workers", "data_juicer")
    parser.add_argument("measures", nargs="*", choices=[[], *known], help="what to measure; all by default")
    parser.add_argument("--megabytes", type=float, default=20, help="of text")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side, of which the median counts")
    parser.add_argument("--data-juicer", metavar="PYTHON", default="", help="an interpreter that has data-juicer")
    arguments = parser.parse_args()
    others: dict[str, Callable[[float, int], Figures]] = {
        "two_workers": two_workers, "data_juicer": partial(beside_data_juicer, python=arguments.data_juicer)}
    figures: Figures = {}
    for name in arguments.measures or known:
        measure = others.get(name) or partial(beside, name)
        figures |= measure(arguments.megabytes, arguments.rounds)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
