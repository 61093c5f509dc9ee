"""Charts: axes that hold the data, labels that do not run into each other, few points of many."""

import math

from argosy.core.statistics.metric import Metric, probability, share
from argosy.evidence.compare.changes import Comparison
from argosy.evidence.compare.checkpoints import Checkpoint, Checkpoints
from argosy.evidence.report.chart import MOST_POINTS, Chart, Series, draw
from argosy.evidence.report.curves import stage_curves


def test_what_is_not_a_number_is_left_out_and_many_points_become_few() -> None:
    points = [(float(x), math.sin(x / 50)) for x in range(5000)]
    points[100] = (100.0, math.nan)
    drawing = draw(Chart("t", "", "steps", [Series("a", points), Series("never", [(0.0, math.inf)])], []))
    assert [name for name, *_ in drawing.lines] == ["a"]
    drawn = drawing.data[0]["p"]
    assert isinstance(drawn, list)
    assert len(drawn) == MOST_POINTS
    assert (drawn[0][2], drawn[-1][2]) == ("0 steps", "4.999k steps")
    assert "nan" not in drawing.lines[0][2]


def test_probes_are_drawn_by_their_declared_kinds() -> None:
    """One line a probe, on a scale with others of its kind, whatever its measures are called."""
    kinds = {"probe/p/facts/hits": share(), "probe/p/facts/prob": probability(), "probe/p/json/belief": probability(),
             "probe/p/texts/bits": Metric("lower", "b"), "probe/p/json/length": Metric("neither", "words"),
             "probe/p/orders/all": share(minor=True)}  # fmt: skip
    line = [Checkpoint(f"a/{n}", "a", "pretrain", f"p{n}", n, n, label=f"p{n}", final=n == 2, kinds=kinds,
                       parent=f"a/{n - 1}", metrics=dict.fromkeys(kinds, 0.1 * n)) for n in (1, 2)]  # fmt: skip
    [(title, charts)] = stage_curves(Comparison(Checkpoints(line), [], []), [])
    assert title == "Over the checkpoints"
    assert {c.title: ([s.name for s in c.series], c.unit, c.note) for c in charts} == {
        "Probes: shares": (["facts/hits"], "%", "higher is better"),
        "Probes: b": (["texts/bits"], "", "lower is better"),
        "Probes: probabilities": (["json/belief"], "", "higher is better")}  # fmt: skip
