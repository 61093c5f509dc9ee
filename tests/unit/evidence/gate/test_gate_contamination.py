"""The rule `contamination`: its bound, a clean reference, options in natural order."""

from typing import Any

import numpy as np
import pytest

from argosy.core.statistics.contamination import Contamination, default_calibration
from argosy.evidence.gate.config import Gate
from argosy.evidence.gate.subject import Subject, nobody
from argosy.evidence.results.contamination import contamination_of
from argosy.evidence.results.rows import Rows
from tests.comparison_fixtures import checkpoint, judged


def rows(seed: int, *, natural: float = 0.0, seen: float = 0.0, share: float = 0.3) -> list[dict[str, Any]]:
    """A strong model's: `natural` nats that it gives the published order of a `share` of the items (the same for all
    models), 2 nats that it gives a share `seen` of items that it has seen."""
    rng = np.random.default_rng(seed)
    found: list[dict[str, Any]] = []
    for n in range(200):
        text, answer = rng.normal(-60, 1.0, 4), rng.normal(-0.5, 0.3, 4)
        text[0] += natural * (n % 10 < 10 * share) + 2.0 * (rng.random() < seen)
        found.append({"task": "facts", "variant": "memorisation", "id": str(n), "place": [n % 4, 4],
                      "scores": [text.tolist(), answer.tolist()]})
        found += [{"task": "facts", "variant": form, "id": f"{n}#{form}", "item": str(n),
                   "correct": bool(rng.random() < 0.97), "chosen": 0, "gold": 0, "scores": []}
                  for form in ("plain", "permuted")]  # fmt: skip
    return found


def subject(seed: int, **given: float) -> Subject:
    return Subject(checkpoint(f"model {seed}", rows(seed, **given)))


def status(new: Subject, old: Subject | None = None, **rule: Any) -> str:
    return judged([{"contamination": rule}], new, old).status


def test_a_bound_that_nothing_can_exceed_is_wrong() -> None:
    most = default_calibration().most
    assert most == max(default_calibration().probability(z) for z in (-1e9, 0.0, 1e9))
    with pytest.raises(ValueError, match=r"below is 0\.99, allowed: up to 0\.\d+, the largest probability"):
        Gate.model_validate({"rules": [{"contamination": {"below": 0.99}}]})
    assert status(subject(1, seen=1.0), below=round(most - 0.001, 4)) == "fails"
    assert [status(subject(seed), below=0.5) for seed in range(8)] == ["holds"] * 8  # strong, and clean
    assert status(subject(1), tasks=["mmlu"]) == "cannot tell"


def test_a_clean_reference_covers_natural_orders() -> None:
    assert status(subject(1, natural=2.0)) == "fails"  # a clean model that the shipped calibration does not cover
    against = [status(subject(seed, natural=2.0), subject(2, natural=2.0), reference=True) for seed in range(20, 40)]
    assert against.count("holds") >= 19
    seen = subject(3, natural=2.0, seen=0.7)
    assert status(seen, subject(2, natural=2.0), reference=True) == "fails"
    assert status(seen, reference=True) == "fails"  # no reference: nothing is taken off
    assert status(seen, nobody("bare"), reference=True) == "cannot tell"


def test_items_in_natural_order_are_left_out() -> None:
    given = rows(1, natural=3.0)
    marked = [row | ({"natural": True} if row["variant"] == "memorisation" and int(row["id"]) % 10 < 3 else {})
              for row in given]
    found, kept = contamination_of(Rows(given), "facts"), contamination_of(Rows(marked), "facts")
    assert isinstance(found, Contamination)
    assert isinstance(kept, Contamination)
    assert (found.items, kept.items) == (200, 140)
    assert {part.items for part in kept.parts} == {140}  # also of plain and permuted answers
    assert found.p_value < 1e-3
    assert kept.p_value > 0.05


def _of(found: list[dict[str, Any]], task: str) -> list[dict[str, Any]]:
    return [{**row, "task": task} for row in found]


def test_a_benchmark_that_only_the_reference_has_or_that_failed_is_not_passed_over() -> None:
    new, old = subject(1), Subject(checkpoint("old", [*rows(2), *_of(rows(3), "mmlu")]))
    found = judged(["contamination"], new, old)
    assert found.status == "cannot tell"
    assert [f.about for _, f in found.having("cannot tell")] == ["mmlu"]
    for failed, left in (("bench/mmlu", "mmlu"), ("bench/mmlu/permuted", "mmlu"), ("bench/mmlu/cloze", ""),
                         ("probe/mmlu", "")):
        new = Subject(checkpoint("new", rows(1)), {failed: "the network is down"})
        told = judged(["contamination"], new).having("cannot tell")
        assert [f.about for _, f in told] == ([left] if left else [])
        assert all(f"{failed} failed for new: the network is down" in f.evidence for _, f in told)
    bare = [row for row in _of(rows(3), "mmlu") if row["variant"] == "plain"]  # has no evidence for anybody
    assert judged(["contamination"], new, Subject(checkpoint("old", [*rows(2), *bare]))).holds


def test_weaker_evidence_does_not_replace_stronger() -> None:
    """A newer evaluation without memorisation, or of few items, is no reason to promote."""
    full = rows(3, seen=0.7)
    for newer in ([row for row in full if row["variant"] != "memorisation"],
                  [row for row in full if int(str(row.get("item") or row["id"])) < 40]):
        both = Rows()
        both.update(Rows(full))
        both.update(Rows(newer))
        assert contamination_of(both, "facts") == contamination_of(Rows(full), "facts")
        assert status(Subject(checkpoint("seen", both))) == "fails"
    again = Rows()
    again.update(Rows(full))
    again.update(Rows(rows(4)))
    assert contamination_of(again, "facts") == contamination_of(Rows(rows(4)), "facts")  # as strong: the newest
