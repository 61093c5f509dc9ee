"""A judge's verdicts for people, and beside them what rules say of the answers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from argosy.documents.jsonl import dump_line
from argosy.judging.records import Answer, Prompt
from argosy.judging.verdicts import Verdict
from argosy.quality import Generated, faults
from argosy.statistics.intervals import Estimate

Shares = Mapping[str, float]


def numbers(found: Mapping[str, Estimate]) -> tuple[dict[str, float], dict[str, float]]:
    """Values and standard errors, without what is not a number."""
    values = {name: estimate.value for name, estimate in found.items() if math.isfinite(estimate.value)}
    return values, {name: found[name].stderr for name in values if math.isfinite(found[name].stderr)}


def shares(prompts: Sequence[Prompt], answers: Mapping[str, Answer]) -> dict[str, float]:
    """Of each rule, the share of faults among the answers that it speaks of."""
    found: dict[str, list[bool]] = {}
    for prompt in prompts:
        for rule, fault in _faults(prompt, answers[prompt.id]).items() if prompt.id in answers else ():
            found.setdefault(rule, []).append(fault)
    return {rule: sum(each) / len(each) for rule, each in sorted(found.items())}


def verdict_lines(
    prompts: Sequence[Prompt], first: Mapping[str, Answer], second: Mapping[str, Answer], verdicts: Sequence[Verdict]
) -> Iterator[str]:
    """A line of JSON for each verdict, with both answers and their faults."""
    by_id = {prompt.id: prompt for prompt in prompts}
    for v in verdicts:
        prompt = by_id[v.id]
        sides = {"first": _side(prompt, first[v.id]), "second": _side(prompt, second[v.id])}
        orders = {"forward": round(v.forward, 5), "backward": round(v.backward, 5)}
        yield dump_line({"id": v.id, "prompt": prompt.text, "winner": v.winner, **orders, **sides})


def describe(
    judge: str,
    values: Shares,
    bounds: Mapping[str, Sequence[float]],
    found: Mapping[str, Shares],
    left_out: Mapping[str, int],
) -> Iterator[str]:
    """Lines for the terminal."""

    def rate(name: str) -> str:
        low, high = bounds[name]
        return f"{values[name]:.3f} [{low:.3f}, {high:.3f}]"

    yield (
        f"judged by {judge}: the first wins {values['wins']:.1%}, ties {values['ties']:.1%}, loses "
        f"{values['losses']:.1%}; win rate {rate('win_rate')}"
    )
    if "win_rate_length_controlled" in values:
        yield f"at equal length: win rate {rate('win_rate_length_controlled')}"
    else:
        yield "at equal length: not known (fewer than 8 prompts, or one model's answers are nearly always the longer)"
    if "orders_agree" in values:
        yield (
            f"it says the same in both orders in {values['orders_agree']:.1%}; the answer that stands first gains "
            f"{values['position_bias']:+.3f}"
        )
    else:
        yield "it was asked about nothing: all answers are equal"
    if "agreement" in values:
        kappa = f" (kappa {values['kappa']:.2f})" if "kappa" in values else ""
        yield f"it agrees with the labels in {values['agreement']:.1%}{kappa}"
    for rule in sorted({*found["first"], *found["second"]}):
        each = [found[side].get(rule) for side in ("first", "second")]
        if any(each):
            against = " against ".join("-" if share is None else f"{share:.1%}" for share in each)
            yield f"answers with the fault {rule}: {against}"
    yield from (f"left out: {n} x {reason}" for reason, n in left_out.items())


def _side(prompt: Prompt, answer: Answer) -> dict[str, object]:
    wrong = [rule for rule, fault in _faults(prompt, answer).items() if fault]
    return {"answer": answer.text, "ended": answer.ended, "faults": wrong}


def _faults(prompt: Prompt, answer: Answer) -> dict[str, bool]:
    return faults(Generated(prompt.text, answer.text, answer.ended))
