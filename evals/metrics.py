"""Metrics of answers: accuracies, agreement between the forms of an item, and what stays without bias to places."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from argosy.core.config.explain import grouped
from argosy.core.statistics.intervals import Estimate, mean
from argosy.core.statistics.metric import Metric, probability, share
from evals.answers import NO_ANSWER, Answer, pass_at, voted
from evals.question import Question, moved_on

PASS_AT = (1, 2, 3, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100, 128)
METRICS: dict[str, Metric] = {
    "acc": share(chance="chance"),
    "acc_norm": share(chance="chance"),
    "acc_bytes": share(minor=True, chance="chance"),
    "mass": probability(chance="chance"),
    **dict.fromkeys(("acc_all", "consistency", "acc_averaged"), share(minor=True)),  # theirs: `chances`
    "acc_pride": share(chance="chance"),
    "position_bias": probability("lower", minor=True),
    "unparsable": share("lower"),
    **{f"pass_at_{k}": share(minor=k > 1) for k in PASS_AT},  # chance of these: `chances`
    "chance": share("neither", minor=True)}
_EQUAL = 1e-9  # share by which two likelihoods differ that are one, but for rounding


def averaged_is_right(group: Sequence[Answer]) -> float:
    """Give 1 where the right option is the likeliest after averaging its probability over the orders of an item, and
    its share where several are as likely: they are to one who looks at places alone."""
    totals: dict[int, float] = {}
    for a in group:
        for origin, weight in zip(a.question.origin, probabilities(a.scores), strict=True):
            totals[origin] = totals.get(origin, 0.0) + weight
    return _credit(totals, group[0].question.origin[group[0].question.gold])


def _credit(values: Mapping[int, float], right: int) -> float:
    most = max(values.values())
    best = [key for key, value in values.items() if math.isclose(value, most, rel_tol=_EQUAL, abs_tol=_EQUAL)]
    return (right in best) / len(best)


def in_rounds(group: Sequence[Answer]) -> list[Answer]:
    """Keep the questions of an item that, together, have each of its options at each place equally often: orders and
    those moved on from them (`permuted`), or the same order in other words. Others are left out."""
    if len({a.question.origin for a in group}) == 1:
        return list(group) if len(group) > 1 else []
    orders = ((a.question.origin, a) for a in group)
    rounds = grouped((moved_on(order, order.index(min(order))), a) for order, a in orders)
    return [a for each in rounds.values() if len({a.question.origin for a in each}) == len(each[0].question.origin)
            for a in each]  # fmt: skip


def pride(groups: Sequence[Sequence[Answer]]) -> Estimate | None:
    """Measure accuracy with PriDe (Zheng et al. 2024, algorithm 1): over items without calibration after dividing by
    the places' prior, over those with it by their cyclic orders themselves. None where no item has all its cyclic
    orders, or none of as many options as another."""
    priors = place_priors(groups)
    if any(len(group[0].scores) not in priors for group in groups):
        groups = [group for group in groups if len(group[0].scores) in priors]
    if not groups:
        return None
    right = [_debiased_is_right(group, priors[len(group[0].scores)]) for group in groups]
    return mean(right, [group[0].question.cluster or group[0].question.item for group in groups])


def place_priors(groups: Sequence[Sequence[Answer]]) -> dict[int, list[float]]:
    """Estimate the log prior (nats) of each place, by number of options: the softmax of the log-probability of a place
    averaged over the cyclic orders of an item, averaged over calibrated items (their equation 7)."""
    found: dict[int, list[list[float]]] = {}
    for group in groups:
        n = len(group[0].scores)
        if len(group) == n and any(a.question.calibration for a in group):
            logs = [[math.log(p) for p in probabilities(a.scores)] for a in group]
            found.setdefault(n, []).append(probabilities([math.fsum(place) / n for place in zip(*logs, strict=True)]))
    return {n: [math.log(math.fsum(p) / len(each)) for p in zip(*each, strict=True)] for n, each in found.items()}


def _debiased_is_right(group: Sequence[Answer], prior: Sequence[float]) -> float:
    if len(group) > 1:
        return averaged_is_right(group)
    [a] = group
    return _credit(dict(enumerate(score - log for score, log in zip(a.scores, prior, strict=True))), a.question.gold)


def probabilities(scores: Sequence[float]) -> list[float]:
    """Take the softmax, none of it 0 (a probability below 1e-30 counts as that)."""
    highest = max(scores)
    weights = [max(math.exp(score - highest), 1e-30) for score in scores]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def metrics(answers: Sequence[Answer]) -> dict[str, Estimate]:
    """Measure one variant of one task; nothing when there are no answers. Errors are clustered by `cluster`.

    acc; acc_norm (where different texts are scored; by character, as lm-eval's), acc_bytes (the same by UTF-8 byte,
    where one of them is not ASCII: else the two are one); mass (where several options are right: their share of the
    probability, TruthfulQA's MC2); unparsable (where answers are generated: those without one), pass_at_k; chance (the
    acc of a guess). Where an item has several questions also acc_all (all of them right); where these have the
    same options in other orders or words, consistency (all of them the same choice), acc_averaged (right after
    averaging the choices' probabilities over orders in which each is at each place equally often) and position_bias
    (see there); of a guess they have their own (`chances`). Questions for calibration count in acc_pride alone."""
    counted = [a for a in answers if not a.question.calibration]
    if not counted:
        return {}
    clusters = [_cluster(a) for a in counted]
    found = {"acc": mean([float(a.correct) for a in counted], clusters)}
    written = [a for a in counted if a.text is not None]
    if written:
        found["unparsable"] = mean([_unparsable(a) for a in written], [_cluster(a) for a in written])
    sampled = [a for a in written if a.samples]
    for k in sorted({k for a in sampled for k in _passes(a)}):
        asked = [a for a in sampled if k in _passes(a)]
        values = [pass_at(len(a.samples), sum(each.correct for each in a.samples), k) for a in asked]
        found[f"pass_at_{k}"] = mean(values, [_cluster(a) for a in asked])
    if not all(a.question.labelled or a.question.prompts or a.text is not None for a in counted):
        found["acc_norm"] = mean([float(a.is_right(a.chosen_norm)) for a in counted], clusters)
        if not all(text.isascii() for a in counted for text in a.question.continuations):
            found["acc_bytes"] = mean([float(a.is_right(a.chosen_bytes)) for a in counted], clusters)
    if any(a.question.golds for a in counted):
        found["mass"] = mean([a.mass for a in counted], clusters)
    found |= _metrics_of_items(list(_by_item(counted)), len(counted))
    if len(counted) < len(answers) and (debiased := pride(list(_by_item(answers)))):
        found["acc_pride"] = debiased
    chance = math.fsum(a.question.chance for a in counted) / len(counted)
    return found | {"chance": Estimate(chance, 0.0, len(counted))}


def _unparsable(a: Answer) -> float:
    """Return the share of an answer's samples in which the rule found none."""
    each = a.samples or (a,)
    return sum(one.chosen == NO_ANSWER for one in each) / len(each)


def _passes(a: Answer) -> tuple[int, ...]:
    return a.question.generation.pass_at if a.question.generation else ()


def metric_names(questions: Sequence[Question]) -> list[str]:
    """Name the METRICS that answers to these questions have, in that order."""
    answers = [
        voted(question, [""] * question.generation.samples)
        if question.generation
        else Answer(question, (0.0,) * len(question.continuations), 0, 0, 0)
        for question in questions]
    found = metrics(answers)
    return [name for name in METRICS if name in found]


def position_bias(answers: Sequence[Answer]) -> float:
    """Measure the total variation distance (0 to 1) between the chosen places and those of right options."""
    chosen = Counter(a.chosen for a in answers)
    right = Counter(a.question.gold for a in answers)
    return sum(abs(chosen[place] - right[place]) for place in {*chosen, *right}) / 2 / len(answers)


def _metrics_of_items(groups: list[list[Answer]], n: int) -> dict[str, Estimate]:
    if len(groups) == n:
        return {}
    clusters = [_cluster(group[0]) for group in groups]
    found = {"acc_all": mean([float(all(a.correct for a in group)) for group in groups], clusters)}
    if any(len({_wanted(a.question) for a in group}) > 1 for group in groups):  # they cannot choose the same in all
        return found
    found["consistency"] = mean([float(len({_choice(a) for a in group}) == 1) for group in groups], clusters)
    rounds = [each for group in groups if (each := in_rounds(group))]
    if rounds and all(a.scores for group in groups for a in group):
        clusters = [_cluster(group[0]) for group in rounds]
        found["acc_averaged"] = mean([averaged_is_right(group) for group in rounds], clusters)
    answers = [a for group in groups for a in group]
    if all(a.question.origin and a.question.chance >= 1 / len(a.question.origin) for a in answers):
        found["position_bias"] = Estimate(position_bias(answers), math.nan, n)
    return found


def chances(answers: Sequence[Answer]) -> dict[str, float]:
    """Compute what one who draws each answer has of the metrics over the questions of an item: acc_all (all right),
    consistency (all the same), acc_averaged (right, in items that have whole rounds of orders)."""
    groups = list(_by_item(a for a in answers if not a.question.calibration))
    each = {"acc_all": [math.prod(a.question.chance for a in group) for group in groups],
            "consistency": [_same(group[0].question) ** (len(group) - 1) for group in groups],
            "acc_averaged": [group[0].question.chance for group in groups if in_rounds(group)]}  # fmt: skip
    for group in groups:
        for a in group:
            for k in _passes(a):
                each.setdefault(f"pass_at_{k}", []).append(1 - (1 - a.question.chance) ** k)
    return {name: round(math.fsum(values) / len(values), 9) for name, values in each.items() if values}


def _same(question: Question) -> float:
    """Return the probability that two draws are the same answer, of the options that are scored."""
    return 1 / len(question.origin) if question.origin and question.generation is None else question.chance


def _wanted(question: Question) -> tuple[frozenset[int], str]:
    """Return the options, or the answer to an open item."""
    about = question.generation
    return frozenset(question.origin), about.answer if about and not about.labels else ""


def _cluster(a: Answer) -> str:
    return a.question.cluster or a.question.item


def _by_item(answers: Iterable[Answer]) -> Iterable[list[Answer]]:
    return grouped((found.question.item, found) for found in answers).values()


def _choice(a: Answer) -> frozenset[int] | str | None:
    """Return the chosen options of the item, whatever their labels; for an open item the extracted text."""
    if a.extracted is None:
        return frozenset({a.question.origin[a.chosen]}) if a.scores else None
    labels = a.question.generation.labels if a.question.generation else ""
    if not labels:
        return a.extracted
    return frozenset(a.question.origin[labels.index(label)] for label in a.extracted if label in labels)
