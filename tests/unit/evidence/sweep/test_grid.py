"""The grid of a sweep: what its axes are, and what is refused in words."""

import pytest

from argosy.core.errors import InputError
from argosy.evidence.sweep.grid import Axis, read_grid
from workflows.lifecycle import LifecycleConfig
from workflows.sweep import read_sweep


def test_fields_with_several_values_are_axes_and_all_others_are_as_in_a_run() -> None:
    grid = read_grid(LifecycleConfig, ["pretrain.learning_rate=1e-3, 3e-3", "data.inputs=a,b", "pretrain.tokens=2048",
                                       "pretrain.model=[{hidden_size: 64}, {hidden_size: 128}]"], seeds=2, first_seed=7)
    assert grid.fixed == ("data.inputs=a,b", "pretrain.tokens=2048")
    assert grid.axes[0] == Axis("pretrain.learning_rate", ("1e-3", "3e-3"))
    assert grid.axes[1].values == ('{"hidden_size": 64}', '{"hidden_size": 128}')
    assert len(grid) == len(list(grid.points())) == 8
    assert next(grid.points())[-1] == "pretrain.seed=7"


@pytest.mark.parametrize(("overrides", "seeds", "said"), [
    (["pretrain.learning_rate=1e-3,3e-3", "pretrain.weigth_decay=0,1"], 0, r"nearest: pretrain\.weight_decay"),
    (["pretrain.learning_rate=1e-3,fast"], 0, r"learning_rate=fast: pretrain\.learning_rate is \"?'?fast.*a number"),
    (["pretrain.learning_rate=1e-3,-1"], 0, r"pretrain\.learning_rate is -1, allowed: a number above 0"),
    (["pretrain.learning_rate=1e-3,,3e-3"], 0, "has an empty value, allowed: one value, or several with commas"),
    (["pretrain.learning_rate=[]"], 0, "has an empty value"),
    (["pretrain.learning_rate=1e-3,0.001"], 0, "has 1e-3 and 0.001, which are the same, twice"),
    (["pretrain.learning_rate=1e-3,3e-3", "pretrain.learning_rate=1e-2"], 0, "is given more than once"),
    (["pretrain.seed=1,2"], 3, "--seeds 3 and pretrain.seed=1,2 both set the seeds"),
    (["sft.learning_rate=1e-3,3e-3"], 0, "a sweep varies fields of pretrain alone"),
    (["pretrain.log_every=1,2"], 0, "changes no result"),
    (["pretrain.learning_rate=1e-3"], 0, "a sweep varies something"),
    (["pretrain.seed=" + ",".join(map(str, range(101))), "pretrain.weight_decay=0,1"], 0,
     r"has 202 points \(101 of pretrain.seed x 2 of pretrain.weight_decay\), allowed: 200"),
])  # fmt: skip
def test_what_cannot_be_swept_is_refused_with_the_field_the_value_and_what_is_allowed(
    overrides: list[str], seeds: int, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        read_sweep("tiny", None, overrides, seeds)
