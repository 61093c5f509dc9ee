"""All comparisons of two models by one judge, in both orders, so that a kill loses nothing that was asked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from argosy.judging.comparison import Comparison, Judge, Preference
from argosy.judging.records import Answer, Prompt
from argosy.judging.verdicts import Verdict

ORDERS = ("forward", "backward")


class Asked(NamedTuple):
    """What a judge was asked and said.

    Attributes:
        left_out: prompts without a verdict, by reason; may_pass: those of them that may have one another time.
        prompts: how many the judge was asked about.
    """

    verdicts: list[Verdict]
    left_out: Counter[str]
    may_pass: Counter[str]
    prompts: int


def ask(
    judge: Judge,
    prompts: Sequence[Prompt],
    first: Mapping[str, Answer],
    second: Mapping[str, Answer],
    kept: Path,
    told: Callable[[int, int], None],
) -> Asked:
    """Verdicts of the prompts that both answered and the judge judged in both orders; others by reason.

    Equal answers are a tie that nobody is asked about.

    Args:
        kept: JSONL file of what the judge said so far; each reply is appended as it comes, and none is asked twice.
        told: is called with (replies there, replies in all).
    """
    left_out: Counter[str] = Counter()
    wanted: dict[tuple[str, str], Comparison] = {}
    both = [p for p in prompts if p.id in first and p.id in second]
    left_out["one of the two has no answer"] = len(prompts) - len(both)
    for prompt in both:
        a, b = first[prompt.id].text, second[prompt.id].text
        if a.strip() != b.strip():
            wanted[prompt.id, "forward"] = Comparison(prompt.text, a, b)
            wanted[prompt.id, "backward"] = Comparison(prompt.text, b, a)
    replies = _read(kept)
    missing = [key for key in wanted if key not in replies]
    with open(kept, "a", encoding="utf-8") as file:

        def save(index: int, preference: Preference) -> None:
            key = missing[index]
            replies[key] = preference
            record = {"id": key[0], "order": key[1], "first": preference.first, "reason": preference.reason}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            file.flush()
            told(len(replies), len(wanted))

        judge.prefer([wanted[key] for key in missing], save)
    verdicts: list[Verdict] = []
    may_pass: Counter[str] = Counter()
    for prompt in both:
        asked = (prompt.id, "forward") in wanted
        verdict = _verdict(prompt.id, replies, first[prompt.id], second[prompt.id], asked=asked)
        if isinstance(verdict, Verdict):
            verdicts.append(verdict)
        else:
            left_out[verdict.reason] += 1
            may_pass[verdict.reason] += verdict.may_pass
    return Asked(verdicts, +left_out, +may_pass, len(wanted) // len(ORDERS))


def _verdict(
    name: str, replies: Mapping[tuple[str, str], Preference], first: Answer, second: Answer, *, asked: bool
) -> Verdict | Preference:
    """Or why there is none: what will not pass comes before what may."""
    lengths = (len(first.text), len(second.text))
    if not asked:
        return Verdict(name, 0.5, 0.5, lengths, asked=False)
    forward, backward = (replies[name, order] for order in ORDERS)
    if forward.first is None or backward.first is None:
        return min((each for each in (forward, backward) if each.first is None), key=lambda each: each.may_pass)
    return Verdict(name, forward.first, 1 - backward.first, lengths)


def _read(kept: Path) -> dict[tuple[str, str], Preference]:
    """Replies of before a kill; a last line that was cut is asked again, as are those that failed."""
    found: dict[tuple[str, str], Preference] = {}
    if not kept.is_file():
        return found
    text = kept.read_text(encoding="utf-8")
    whole = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
    if sum(map(len, whole)) < len(text):
        kept.write_text("".join(whole), encoding="utf-8")
    for line in whole:
        record = json.loads(line)
        if record["first"] is not None:
            found[record["id"], record["order"]] = Preference(record["first"])
    return found
