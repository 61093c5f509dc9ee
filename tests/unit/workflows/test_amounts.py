"""Rows, tokens, steps and epochs of training before it runs, and batches of more than there is: plan and step agree."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.core.store.files import write_json
from steps.data import DataConfig
from tests.posttraining_fixtures import make_checkpoint, make_data
from tests.step_fixtures import write_lines
from tests.training_fixtures import run_here
from workflows.amounts import Ahead, amounts, describe_amounts
from workflows.graph import definition
from workflows.plan import Plan, PlannedNode


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("amounts")
    make_checkpoint(root / "base")
    make_data(root / "data", 80)
    return root


def ahead(root: Path, step: str, *, done: tuple[str, ...] = ("base", "data", "tokens"), own: DataConfig | None = None,
          **fields: Any) -> Ahead:
    """What a plan says of a step whose upstream nodes in `done` are done."""
    config = definition(step).config.model_validate(fields)
    nodes = [PlannedNode.model_construct(name=name, dir=str(root / name), state="done", step="noop", selected=True)
             for name in done]
    mine = PlannedNode.model_construct(name="mine", dir="", state="pending", step=step, selected=True,
                                      config=config.model_dump_json())
    [found] = amounts(Plan.model_construct(store="", stages=(), nodes=(*nodes, mine)), own or DataConfig())
    return found


@pytest.mark.parametrize(("step", "rows", "steps", "fields"), [
    ("sft", None, None, {"epochs": 3, "batch_size": 4}),
    ("sft", 60, 45, {"epochs": 3, "batch_size": 4, "packing": False}),
    ("reward_model", 60, 15, {"batch_size": 8, "micro_batch_size": 8, "epochs": 2}),
    ("preference", 120, 9, {"method": "kto", "batch_size": 40, "micro_batch_size": 8, "epochs": 3}),
    ("rlhf", None, 5, {"max_steps": 5, "batch_size": 8, "micro_batch_size": 8, "method": "grpo", "group": {"size": 4},
                       "max_new_tokens": 8, "rewards": {"accept": 1}, "heldout_limit": 4}),
])  # fmt: skip
def test_the_plan_counts_as_the_step_does_and_both_refuse_a_larger_batch(
    root: Path, tmp_path: Path, step: str, rows: int | None, steps: int | None, fields: dict[str, Any]
) -> None:
    fields = {"checkpoint": str(root / "base"), "data": str(root / "data"), "dtype": "float32", **fields}
    amount = ahead(root, step, **fields).amount
    assert amount is not None
    assert (amount.rows, amount.steps) == (rows or amount.rows, steps or -(-3 * amount.rows // 4))
    assert amount.epochs == pytest.approx(amount.steps * fields["batch_size"] / amount.rows)
    assert step == "rlhf" or (amount.tokens or 0) > 10 * min(amount.rows, 60)
    whole = fields | {"batch_size": amount.rows, "micro_batch_size": 1}
    assert ahead(root, step, **whole).amount is not None  # all rows at once are taken
    larger = whole | {"batch_size": amount.rows + 4}
    with pytest.raises(InputError) as planned:
        ahead(root, step, **larger)
    with pytest.raises(InputError) as refused:
        run_here(importlib.import_module(f"steps.{step}"), tmp_path, **larger)
    assert str(planned.value) == f"mine.{refused.value}"
    assert str(refused.value).startswith(f"batch_size={amount.rows + 4} is more than the {amount.rows} ")
    assert f"set batch_size to {amount.rows} or less" in str(refused.value)


def test_before_its_data_are_made_a_stage_has_at_most_the_records_of_the_user_s_files(root: Path,
                                                                                      tmp_path: Path) -> None:
    pair = {"prompt": "a", "chosen": "b", "rejected": "c"}
    write_lines(tmp_path / "pairs.jsonl", [pair] * 10)
    own = DataConfig.model_validate({"preferences": str(tmp_path / "pairs.jsonl")})
    fields: dict[str, Any] = {"data": str(root / "data-0"), "checkpoint": str(root / "base"), "micro_batch_size": 1}
    found = ahead(root, "reward_model", own=own, batch_size=10, **fields)
    assert (found.amount, found.note) == (None, "of 10 records at most")
    with pytest.raises(InputError, match=r"mine\.batch_size=11 is more than the 10 examples"):
        ahead(root, "reward_model", own=own, batch_size=11, **fields)
    unknown = ahead(root, "sft", own=own, batch_size=100_000, **fields)  # of the demo's conversations
    assert "once its data and model are done" in describe_amounts([unknown])


def test_a_phase_of_pretraining_has_no_batch_of_more_samples_than_its_channels(tmp_path: Path) -> None:
    counts = {"train": {"tokens": 33_000, "documents": 1_000, "bytes": 1}}
    write_json(tmp_path / "index.json", {"channels": {"a": counts, "b": counts}})
    fields: dict[str, Any] = {"tokenized": str(tmp_path), "sequence_length": 64, "tokens": 64 * 1_000}
    found = ahead(tmp_path.parent, "pretrain", done=(tmp_path.name,), global_batch_size=100, **fields).amount
    assert found is not None
    assert (found.rows, found.tokens, found.steps, found.epochs) == (1_000, 66_000, 10, 1.0)
    with pytest.raises(InputError, match=r"mine\.global_batch_size=600 is more than the 525 samples"):
        ahead(tmp_path.parent, "pretrain", done=(tmp_path.name,), global_batch_size=600, mixture={"a": 1, "b": 0},
              **fields)


@pytest.mark.parametrize(("mixture", "tokens"), [
    ({"wiki": 1, "other": 9}, 1_403_000), ({"other": 1}, 1_403_000), ({"web": 1, "books": 0, "wiki": 0}, 900_000),
    ({"wiki": 1, "web": 0, "books": 0}, "=64 is more than the 26 samples"), ({"wiki": 1}, "mixture does not name"),
    ({"wkii": 1, "other": 1}, "wkii: no such channel"),
])  # fmt: skip
def test_the_plan_counts_the_channels_that_training_draws_from(tmp_path: Path, mixture: dict[str, float],
                                                               tokens: int | str) -> None:
    sizes = {"web": 900_000, "wiki": 3_000, "books": 500_000}
    write_json(tmp_path / "index.json", {"channels": {
        name: {"train": {"tokens": size, "documents": 1, "bytes": 1}} for name, size in sizes.items()}})
    fields: dict[str, Any] = {"tokenized": str(tmp_path), "sequence_length": 128, "tokens": 128 * 64,
                              "global_batch_size": 64, "mixture": mixture}
    if isinstance(tokens, str):
        with pytest.raises(InputError, match=tokens):
            ahead(tmp_path.parent, "pretrain", done=(tmp_path.name,), **fields)
        return
    found = ahead(tmp_path.parent, "pretrain", done=(tmp_path.name,), **fields).amount
    assert found is not None
    assert (found.tokens, found.rows) == (tokens, -(-(tokens - (1 if tokens < 10**6 else 3)) // 128))
