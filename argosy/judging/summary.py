"""A judge's verdicts for people, beside the faults that rules see in the answers."""

import math
from collections.abc import Iterator, Mapping, Sequence

from argosy.data.jsonl import dump_line
from argosy.judging.metrics import Verdict
from argosy.judging.records import Answer, Prompt
from argosy.statistics.intervals import Estimate
from argosy.text.faults import Generated
from argosy.text.faults import faults as faults_of

Shares = Mapping[str, float]


def numbers(estimates: Mapping[str, Estimate]) -> tuple[dict[str, float], dict[str, float]]:
    """Split estimates into values and standard errors that are numbers."""
    values = {name: estimate.value for name, estimate in estimates.items() if math.isfinite(estimate.value)}
    return values, {name: estimates[name].stderr for name in values if math.isfinite(estimates[name].stderr)}


def shares(prompts: Sequence[Prompt], answers: Mapping[str, Answer]) -> dict[str, float]:
    """Compute the share of answers with each rule's fault, among those that the rule applies to."""
    by_rule: dict[str, list[bool]] = {}
    for prompt in prompts:
        for rule, fault in _faults(prompt, answers[prompt.id]).items() if prompt.id in answers else ():
            by_rule.setdefault(rule, []).append(fault)
    return {rule: sum(each) / len(each) for rule, each in sorted(by_rule.items())}


def verdict_lines(
    prompts: Sequence[Prompt], first: Mapping[str, Answer], second: Mapping[str, Answer], verdicts: Sequence[Verdict]
) -> Iterator[str]:
    """Yield a line of JSON for each verdict, with both answers and their faults."""
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
    faults: Mapping[str, Shares],
    left_out: Mapping[str, int],
) -> Iterator[str]:
    """Yield lines for the terminal."""

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
        yield "at equal length: unknown (fewer than 8 prompts, or one model's answers are nearly always the longer)"
    if "orders_agree" in values:
        yield (
            f"it says the same in both orders in {values['orders_agree']:.1%}; the answer that stands first gains "
            f"{values['position_bias']:+.3f}"
        )
    else:
        yield "it judged nothing: all answers are equal"
    if "agreement" in values:
        kappa = f" (kappa {values['kappa']:.2f})" if "kappa" in values else ""
        yield f"it agrees with the labels in {values['agreement']:.1%}{kappa}"
    for rule in sorted({*faults["first"], *faults["second"]}):
        each = [faults[side].get(rule) for side in ("first", "second")]
        if any(each):
            against = " against ".join("-" if share is None else f"{share:.1%}" for share in each)
            yield f"answers with the fault {rule}: {against}"
    yield from (f"left out: {n} x {reason}" for reason, n in left_out.items())


def _side(prompt: Prompt, answer: Answer) -> dict[str, object]:
    wrong = [rule for rule, fault in _faults(prompt, answer).items() if fault]
    return {"answer": answer.text, "ended": answer.ended, "faults": wrong}


def _faults(prompt: Prompt, answer: Answer) -> dict[str, bool]:
    return faults_of(Generated(prompt.text, answer.text, answer.ended))
