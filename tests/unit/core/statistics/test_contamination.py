"""The contamination score on made-up models: who memorised and who knows."""

import math

import numpy as np
import pytest
from scipy import stats

from argosy.core.statistics.contamination import Equals, Evidence, Gap, score

ITEMS = 200
PLACES = {str(n): n % 4 for n in range(ITEMS)}


def model(seed: int, *, seen: float = 0.0, natural: float = 0.0) -> list[Evidence]:
    """seen: share of items whose published order it remembers; natural: nats that such orders are likelier for all."""
    rng = np.random.default_rng(seed)
    texts, letters, plain, permuted = {}, {}, {}, {}
    for n in range(ITEMS):
        remembers, known = rng.random() < seen, rng.random() < 0.4
        text, answer = rng.normal(-80, 3.0, 4), rng.normal(-1, 0.3, 4)
        text[0] += 3.0 * remembers + natural
        answer[0] += 0.5 * remembers
        texts[str(n)], letters[str(n)] = text.tolist(), answer.tolist()
        plain[str(n)] = float(known or remembers)
        permuted[str(n)] = float(known)
    return [Equals("text_order", texts), Equals("answer_order", letters), Gap("order_gap", plain, permuted)]


def test_clean_models_have_uniform_p_values_and_seen_items_stand_out() -> None:
    p_values = [score(model(seed), PLACES).p_value for seed in range(100)]
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    assert np.mean(np.array(p_values) < 0.05) <= 0.09
    for share in (0.3, 1.0):
        found = score(model(1, seen=share), PLACES)
        assert found.p_value < 1e-4
        assert 0 < found.low < found.score < found.high


def test_numbers_of_options_count_by_their_items_and_rare_places_are_counted_out() -> None:
    rng = np.random.default_rng(1)
    options = [4] * 80 + [2] * 40 + [3] * 12
    places = {str(i): (i % n, n) for i, n in enumerate(options)}
    changed = {str(i): float(v) for i, v in enumerate(rng.normal(size=132))}
    found = score([Gap("order_gap", changed, dict.fromkeys(changed, 0.0))], places)
    assert (found.items, found.left_out) == (120, 12)  # 4 items at each of 3 places
    kept = np.array([changed[str(i)] for i in range(120)])
    expected = sum(kept[[places[str(i)] == (p, n) for i in range(120)]].mean() * share / n
                   for n, share in ((4, 80 / 120), (2, 40 / 120)) for p in range(n))
    assert found.score == pytest.approx(expected / math.sqrt((kept**2).mean()))
    with pytest.raises(ValueError, match="132 items have their right option at a place of fewer than 10"):
        score([Gap("order_gap", changed, dict.fromkeys(changed, 0.0))], dict.fromkeys(changed, (0, 4)))


def test_effects_by_hand() -> None:
    scores = {str(n): [1.0, 0.0, 0.0, -1.0] if n % 2 else [0.0, 1.0, 0.0, -1.0] for n in range(40)}
    [part] = score([Equals("x", scores)]).parts
    values = np.array([1 / np.std([1, 0, 0, -1]) if n % 2 else 0.0 for n in range(40)])
    assert part.effect == pytest.approx(values.mean() / math.sqrt((values**2).mean()))
    unit = values / math.sqrt((values**2).mean())
    assert part.stderr == pytest.approx(math.hypot(stats.sem(unit), unit.max() / 40))
    assert part.p_value == pytest.approx(stats.norm.sf(part.effect / part.stderr))
    both = score([Equals("x", scores), Equals("y", scores)])
    assert both.p_value == pytest.approx(1 - (1 - part.p_value) ** 2)  # Sidak
    pairs = score([Equals("x", scores)], clusters={str(n): n // 2 for n in range(40)})
    assert pairs.parts[0].stderr < part.stderr  # one of each pair stands out: pairs are alike


def test_a_measure_that_cannot_move_does_not_hide_the_error_of_another() -> None:
    texts, _, _ = model(7, natural=-0.5)
    assert isinstance(texts, Equals)
    few = dict(list(texts.scores.items())[:48])
    always_a = {item: float(PLACES[item] == 0) for item in few}  # right where A is, in a quarter of the other orders
    found = score([Equals("text_order", few), Gap("order_gap", always_a, dict.fromkeys(few, 0.25))], PLACES)
    text, letters = found.parts
    assert (found.measure, letters.effect) == ("order_gap", pytest.approx(0))
    assert text.effect < 0  # so the letters stand out most
    ends = [each.effect + stats.norm.ppf(1 - 0.05 / 4) * each.stderr for each in (text, letters)]
    assert found.high == pytest.approx(max(ends))
    assert found.high == pytest.approx(ends[0])
    assert found.low == pytest.approx(2 * letters.effect - ends[1])
