"""Which way is better is known of every metric that evaluation writes, whatever a channel or a probe is called."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from argosy.comparison.kinds import kind_of
from argosy.comparison.measures import BENCH, JUDGE, of_probe
from argosy.judging.verdicts import Verdict, metrics
from argosy.quality import registered
from evals.metrics import LOWER_IS_BETTER, METRICS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("name", "better", "share"),
    [
        ("probe/generation/open/loop", -1, True), ("probe/generation/open/empty", -1, True),
        ("probe/generation/open/faultless", 1, True), ("probe/generation/open/length", 0, False),
        ("probe/core_probes/texts/bpw", -1, False), ("probe/core_probes/texts/bpc", -1, False),
        ("probe/behaviour/end/early", -1, False), ("probe/behaviour/end/prob", 1, False),
        ("probe/behaviour/refusal_en/refusal_harmful", 1, True), ("probe/behaviour/refusal_en/auc", 1, False),
        ("probe/behaviour/refusal_en/refusal_lookalike", -1, True), ("probe/behaviour/refusal_en/gap", 0, False),
        ("probe/behaviour/refusal_en/separation", 1, False), ("probe/winogender/w/gender_gap", -1, True),
        ("probe/behaviour/format/json/lift", 1, False), ("probe/winogender/w/gotcha", 1, True),
        ("judge/first/loop", -1, True), ("judge/second/loop", 0, True), ("judge/win_rate", 1, True),
        ("judge/losses", -1, True), ("judge/position_bias", 0, False), ("judge/longer_wins", 0, True),
        ("memorisation/exact/all", -1, True), ("memorisation/exact_heldout/all", 0, True),
        ("memorisation/exact_gap/all", -1, False), ("memorisation/matched/all", -1, False),
        ("memorisation/auc_min_k_plus/all", -1, False), ("memorisation/matched_heldout/all", 0, False),
    ],
)  # fmt: skip
def test_the_measure_says_which_way_is_better(name: str, better: int, share: bool) -> None:
    assert (kind_of(name).better, kind_of(name).share) == (better, share)


def test_our_own_measures_of_benchmarks_are_as_evaluation_has_them() -> None:
    expected = {name: 0 if name == "chance" else -1 if name in LOWER_IS_BETTER else 1 for name in METRICS}
    assert expected == BENCH
    assert {name: kind_of(f"bench/t/plain/{name}").better for name in METRICS} == expected


@pytest.mark.parametrize(("better", "names"), [
    (-1, "brier_score perspective_api_toxicity_score bits_per_byte byte_perplexity word_perplexity ter mae mse wer"),
    (1, "rougeL rougeLsum rouge1 bleurt_acc bleu_max chrf f1 exact_match prompt_level_strict_acc mcc"),
    (0, "score my_score likelihood_diff"),
])  # fmt: skip
def test_measures_of_other_tasks_are_known_or_not_guessed(better: int, names: str) -> None:
    assert {name: kind_of(f"bench/t/plain/{name}").better for name in names.split()} == dict.fromkeys(
        names.split(), better)


@pytest.mark.parametrize("channel", ["accounts_em", "loss", "web/acc", "position_bias"])
def test_a_channel_is_no_measure(channel: str) -> None:
    for measure in ("exact", "exact_gap", "matched", "auc_loss", "exact_heldout"):
        plain = kind_of(f"memorisation/{measure}/web")
        assert kind_of(f"memorisation/{measure}/{channel}") == replace(plain, short=f"{channel} {measure}")


def test_every_documented_measure_of_a_probe_is_known() -> None:
    """Those of the table in docs/probes.md: in the table of measures, or known by their words."""
    table = (DOCS / "probes.md").read_text(encoding="utf-8").partition("| kind | asks |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1:4] for line in table.splitlines()[2:]]
    assert len(rows) == 10
    found = {measure for _, _, measures in rows for measure in re.findall(r"`(\w+)`", measures)} - {"against"}
    assert {"early", "bpw", "same_answer", "gotcha", "letters"} <= found
    for measure in found | set(registered()) | {f"refusal_{group}" for group in ("harmful", "harmless", "lookalike")}:
        assert of_probe(measure) or kind_of(f"probe/s/x/{measure}").better, measure


def test_every_metric_of_a_judge_is_known() -> None:
    verdicts = [Verdict(str(n), 0.9 if n % 3 else 0.2, 0.8 if n % 2 else 0.4, (n, 9 - n)) for n in range(10)]
    found = metrics(verdicts, {str(n): "first" for n in range(10)})
    assert {"win_rate", "losses", "agreement"} <= found.keys()
    for measure in found:
        assert measure in JUDGE or kind_of(f"judge/{measure}").better, measure


def test_saying_none_more_often_is_neither_better_nor_worse() -> None:
    assert kind_of("bench/mmlu/none_of_the_others/acc").better == kind_of("bench/mmlu/none_control/acc").better == 0
    assert kind_of("bench/mmlu/plain/acc").better == 1
