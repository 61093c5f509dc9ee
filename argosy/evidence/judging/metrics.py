"""Verdicts on two models' answers, their metrics, at equal length too (Dubois et al. 2024, AlpacaEval 2), and both for
people, beside the faults that rules see in the answers."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from argosy.core.config.explain import grouped
from argosy.core.lazy import np
from argosy.core.statistics.intervals import Estimate, mean, share_interval
from argosy.core.statistics.metric import Metric, probability, share
from argosy.core.statistics.paired import Interval
from argosy.corpus.data.jsonl import dump_line
from argosy.corpus.text.faults import Generated
from argosy.corpus.text.faults import faults as faults_of
from argosy.evidence.judging.records import Answer, Prompt

METRICS: dict[str, Metric] = {  # a number about the judge itself has no direction
    "judge/win*": share(),
    "judge/losses": share("lower"),
    "judge/preference": probability(),
    "judge/position_bias": probability("neither"),
    "judge/kappa": Metric("neither"),
    **dict.fromkeys(("judge/ties", "judge/orders_agree", "judge/agreement", "judge/longer_wins"), share("neither")),
    "judge/first/*": share("lower"),  # faults of the model that is judged
    "judge/second/*": share("neither"),  # and of the other one
}
RIDGE = 1.0  # prior variance of the length's weight: keeps it finite where length alone tells every verdict
DRAWS = 1000
LEAST_PROMPTS = 8
LEAST_SHARE = 0.1  # of prompts in which each model's answer is the longer one


@dataclass(frozen=True)
class Verdict:
    """The verdict on the answers to one prompt."""

    id: str
    forward: float
    """probability that the first model's answer is better, where it stood first"""
    backward: float
    """the same probability, where it stood second"""
    lengths: tuple[int, int]
    """lengths of both answers, in characters"""
    judged: bool = True
    """False: the answers are equal, which no judge reads"""

    @property
    def preference(self) -> float:
        """Mean of both orders: 1 = the first model's answer."""
        return (self.forward + self.backward) / 2

    @property
    def winner(self) -> str:
        """first or second where both orders say so, else tie."""
        if self.forward > 0.5 and self.backward > 0.5:
            return "first"
        return "second" if self.forward < 0.5 and self.backward < 0.5 else "tie"

    @property
    def score(self) -> float:
        """1, 0.5 or 0: a win, a tie, a loss."""
        return {"first": 1.0, "tie": 0.5, "second": 0.0}[self.winner]


def metrics(verdicts: Sequence[Verdict], labels: Mapping[str, str]) -> dict[str, Estimate]:
    """Compute the metrics of verdicts (docs/evaluation.md); agreement and kappa where there are `labels`.

    A tie is half a win. orders_agree and position_bias (probability of the answer that stands first, less a half) are
    over the prompts that were judged. Errors are standard errors over prompts."""
    if not verdicts:
        return {}
    values = {"win_rate": mean([v.score for v in verdicts]), "preference": mean([v.preference for v in verdicts])}
    for name, winner in (("wins", "first"), ("ties", "tie"), ("losses", "second")):
        values[name] = mean([float(v.winner == winner) for v in verdicts])
    if judged := [v for v in verdicts if v.judged]:
        values["orders_agree"] = mean([float(_side(v.forward) == _side(v.backward)) for v in judged])
        values["position_bias"] = mean([(v.forward - v.backward) / 2 for v in judged])
    if decided := [v for v in verdicts if v.winner != "tie" and v.lengths[0] != v.lengths[1]]:
        longer = [float((v.winner == "first") == (v.lengths[0] > v.lengths[1])) for v in decided]
        values["longer_wins"] = mean(longer)
    if equal := _at_equal_length(verdicts):
        values["win_rate_length_controlled"] = Estimate(equal.value, (equal.high - equal.low) / 3.92, len(verdicts))
    if both := [(v.winner, labels[v.id]) for v in verdicts if v.id in labels]:
        values["agreement"] = mean([float(a == b) for a, b in both])
        values["kappa"] = Estimate(kappa(both), math.nan, len(both))
    return values


def intervals(verdicts: Sequence[Verdict]) -> dict[str, tuple[float, float]]:
    """Compute 95 % intervals: of the win rate Wilson's (which has a width also where one model wins all), of the one at
    equal length the bootstrap's."""
    rate = mean([v.score for v in verdicts])
    bounds = {"win_rate": share_interval(rate.value, rate.stderr, rate.n)}
    equal = _at_equal_length(verdicts)
    return bounds | ({"win_rate_length_controlled": (equal.low, equal.high)} if equal else {})


def kappa(pairs: Sequence[tuple[str, str]]) -> float:
    """Compute the agreement of two raters beyond chance (Cohen 1960); NaN where both always say the same one word."""
    n = len(pairs)
    observed = sum(a == b for a, b in pairs) / n
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    chance = sum(first[word] * second[word] for word in first) / n**2
    return (observed - chance) / (1 - chance) if chance < 1 else math.nan


def length_controlled(preferences: Sequence[float], first: Sequence[int], second: Sequence[int]) -> Interval | None:
    """Estimate the win rate of the first at no difference in length, with its 95 % bootstrap interval over prompts.

    A logistic regression of the preference on tanh(difference in characters / its standard deviation); the win rate
    is the model's at difference 0. Of AlpacaEval's terms that is the model and the length; difficulty by instruction
    needs many models. None where there are fewer than 8 prompts, or where one model's answers are the longer ones in
    more than nine of ten: nothing tells then what it would win at equal length. `preferences`: 0 to 1 for each
    prompt, 0.5 for a tie. `first`, `second`: lengths of the answers, in characters."""
    y = np.asarray(preferences, dtype=np.float64)
    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    least = min(float((difference > 0).mean()), float((difference < 0).mean()))
    if len(y) < LEAST_PROMPTS or (least < LEAST_SHARE and bool(difference.any())):
        return None
    spread = float(difference.std())
    x = np.tanh(difference / spread) if spread > 0 else np.zeros_like(difference)
    draws = np.random.default_rng(0).integers(0, len(y), (DRAWS, len(y)))
    rates = [_rate_at_zero(y[draw], x[draw]) for draw in draws]
    low, high = np.quantile(rates, [0.025, 0.975])
    return Interval(_rate_at_zero(y, x), float(low), float(high))


def _rate_at_zero(y: "np.ndarray", x: "np.ndarray") -> float:
    """Compute sigmoid(intercept) of the penalised fit, by Newton's method; a weak prior on both keeps them finite."""
    a = b = 0.0
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(a + b * x, -30, 30)))
        weight = p * (1 - p)
        gradient = np.array([(y - p).sum() - a / 100, ((y - p) * x).sum() - b / RIDGE])
        hessian = np.array([[weight.sum() + 1 / 100, (weight * x).sum()],
                            [(weight * x).sum(), (weight * x * x).sum() + 1 / RIDGE]])  # fmt: skip
        step = np.linalg.solve(hessian, gradient)
        a, b = a + float(step[0]), b + float(step[1])
        if float(np.abs(step).max()) < 1e-10:
            break
    return 1 / (1 + math.exp(-a))


def _at_equal_length(verdicts: Sequence[Verdict]) -> Interval | None:
    first, second = [v.lengths[0] for v in verdicts], [v.lengths[1] for v in verdicts]
    return length_controlled([v.score for v in verdicts], first, second)


def _side(preference: float) -> int:
    return (preference > 0.5) - (preference < 0.5)


Shares = Mapping[str, float]


def numbers(estimates: Mapping[str, Estimate]) -> tuple[dict[str, float], dict[str, float]]:
    """Split estimates into values and standard errors that are numbers."""
    values = {name: estimate.value for name, estimate in estimates.items() if math.isfinite(estimate.value)}
    return values, {name: estimates[name].stderr for name in values if math.isfinite(estimates[name].stderr)}


def shares(prompts: Sequence[Prompt], answers: Mapping[str, Answer]) -> dict[str, float]:
    """Compute the share of answers with each rule's fault, among those that the rule applies to."""
    found = (_faults(prompt, answers[prompt.id]) for prompt in prompts if prompt.id in answers)
    by_rule = grouped(pair for each in found for pair in each.items())
    return {rule: sum(each) / len(each) for rule, each in sorted(by_rule.items())}


def verdict_lines(prompts: Sequence[Prompt], first: Mapping[str, Answer], second: Mapping[str, Answer],
                  verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield a line of JSON for each verdict, with both answers and their faults."""
    by_id = {prompt.id: prompt for prompt in prompts}
    for v in verdicts:
        prompt = by_id[v.id]
        sides = {"first": _answered(prompt, first[v.id]), "second": _answered(prompt, second[v.id])}
        orders = {"forward": round(v.forward, 5), "backward": round(v.backward, 5)}
        yield dump_line({"id": v.id, "prompt": prompt.text, "winner": v.winner, **orders, **sides})


def describe(judge: str, values: Shares, bounds: Mapping[str, Sequence[float]], faults: Mapping[str, Shares],
             left_out: Mapping[str, int]) -> Iterator[str]:
    """Yield lines for the terminal."""

    def rate(name: str) -> str:
        low, high = bounds[name]
        return f"{values[name]:.3f} [{low:.3f}, {high:.3f}]"

    yield (
        f"judged by {judge}: the first wins {values['wins']:.1%}, ties {values['ties']:.1%}, loses "
        f"{values['losses']:.1%}; win rate {rate('win_rate')}")
    if "win_rate_length_controlled" in values:
        yield f"at equal length: win rate {rate('win_rate_length_controlled')}"
    else:
        yield "at equal length: unknown (fewer than 8 prompts, or one model's answers are nearly always the longer)"
    if "orders_agree" in values:
        yield (
            f"it says the same in both orders in {values['orders_agree']:.1%}; the answer that stands first gains "
            f"{values['position_bias']:+.3f}")
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


def _answered(prompt: Prompt, answer: Answer) -> dict[str, object]:
    wrong = [rule for rule, fault in _faults(prompt, answer).items() if fault]
    return {"answer": answer.text, "ended": answer.ended, "faults": wrong}


def _faults(prompt: Prompt, answer: Answer) -> dict[str, bool]:
    return faults_of(Generated(prompt.text, answer.text, answer.ended))
