"""Rows, tokens, steps and epochs of training before it runs, and batches of more than there is."""

from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.core.store.files import write_json
from steps.data import DataConfig
from tests.step_fixtures import write_lines
from workflows.amounts import Ahead, amounts, describe_amounts
from workflows.graph import definition
from workflows.plan import Plan, PlannedNode

PAIR = {"prompt": "a", "chosen": "b", "rejected": "c"}


def ahead(root: Path, step: str, own: DataConfig | None = None, **fields: Any) -> Ahead:
    """What a plan says of a step whose upstream node in `root/done` is done."""
    config = definition(step).config.model_validate(fields)
    done, mine = (PlannedNode.model_construct(name=name, dir=str(root / name), state=state, step=kind, selected=True,
                                              config=config.model_dump_json())
                  for name, state, kind in (("done", "done", "noop"), ("mine", "pending", step)))
    [found] = amounts(Plan.model_construct(store="", stages=(), nodes=(done, mine)), own or DataConfig())
    return found


@pytest.mark.parametrize("made", [False, True])
def test_a_stage_of_posttraining_has_at_most_the_records_of_its_data_or_of_the_user_s_files(made: bool,
                                                                                           tmp_path: Path) -> None:
    own = DataConfig()
    if made:
        (tmp_path / "done").mkdir()
        write_lines(tmp_path / "done/preferences.jsonl", [PAIR] * 10)
    else:
        write_lines(tmp_path / "pairs.jsonl", [PAIR] * 10)
        own = DataConfig.model_validate({"preferences": str(tmp_path / "pairs.jsonl")})
    fields: dict[str, Any] = {"data": str(tmp_path / ("done" if made else "data-0")), "micro_batch_size": 1}
    found = ahead(tmp_path, "reward_model", own, batch_size=10, **fields)
    assert (found.amount, found.note) == (None, "of 10 records at most")
    with pytest.raises(InputError, match=r"mine\.batch_size=11 is more than the 10 examples"):
        ahead(tmp_path, "reward_model", own, batch_size=11, **fields)
    assert ahead(tmp_path, "preference", own, method="kto", batch_size=20, **fields).note  # two answers of a pair
    if not made:
        unknown = ahead(tmp_path, "sft", own, batch_size=100_000, **fields)  # of the demo's conversations
        assert "once its data are done" in describe_amounts([unknown])


def test_a_phase_of_pretraining_has_no_batch_of_more_samples_than_its_channels(tmp_path: Path) -> None:
    (tmp_path / "done").mkdir()
    counts = {"train": {"tokens": 33_000, "documents": 1_000, "bytes": 1}}
    write_json(tmp_path / "done/index.json", {"channels": {"a": counts, "b": counts}})
    fields: dict[str, Any] = {"tokenized": str(tmp_path / "done"), "sequence_length": 64, "tokens": 64 * 1_000}
    found = ahead(tmp_path, "pretrain", global_batch_size=100, **fields).amount
    assert found is not None
    assert (found.rows, found.tokens, found.steps, found.epochs) == (1_000, 66_000, 10, 1.0)
    with pytest.raises(InputError, match=r"mine\.global_batch_size=600 is more than the 525 samples"):
        ahead(tmp_path, "pretrain", global_batch_size=600, mixture={"a": 1, "b": 0}, **fields)
