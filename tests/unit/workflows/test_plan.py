"""A plan says what would run and why, how much training that is, and survives JSON."""

import json
from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.core.store.files import write_json
from argosy.core.store.step_files import ERROR, NODE, OUTPUTS
from steps.data import DataConfig
from steps.noop import NoopConfig
from tests.step_fixtures import write_lines
from workflows.amounts import Ahead, amounts, describe_amounts
from workflows.graph import Graph, Node, definition
from workflows.plan import Plan, PlannedNode, plan


def chain(size: int = 0, inputs: tuple[str, ...] = ()) -> list[Node]:
    a = Node("clean", "noop", NoopConfig(inputs=inputs))
    b = Node("pretrain", "noop", NoopConfig(size=size), inputs={"after": [a]})
    return [a, b, Node("sft", "noop", NoopConfig(), inputs={"after": [b]})]


def finish(nodes: list[Node], store: Path, *names: str) -> None:
    graph = Graph(nodes)
    for node in nodes:
        if node.name in names:
            directory = Path(graph.directory(node, str(store)))
            directory.mkdir(parents=True)
            record = graph.made_from(node)
            (directory / NODE).write_text(json.dumps(record))
            (directory / OUTPUTS).write_text(json.dumps({"outputs": {}, "made_from": record}))


def by_name(result: Plan) -> dict[str, PlannedNode]:
    return {node.id: node for node in result.nodes}


def test_what_is_done_does_not_run_and_the_rest_says_why(tmp_path: Path) -> None:
    data = tmp_path / "data.txt"
    data.write_text("one")
    finish(chain(inputs=(str(data),)), tmp_path / "files", "clean")
    data.write_text("changed")
    assert "input file of clean.inputs changed" in plan(chain(inputs=(str(data),)), tmp_path / "files").nodes[0].reason
    finish(chain(), tmp_path, "clean", "pretrain", "sft")
    assert plan(chain(), tmp_path).to_run == []
    changed = by_name(plan(chain(size=5), tmp_path))
    assert changed["clean"].state == "done"
    assert changed["pretrain"].reason.startswith("config changed: pretrain.size 0 -> 5 (was ")
    assert changed["sft"].reason.startswith("upstream of sft.after changed (was ")


def test_a_new_store_never_ran_and_a_failure_is_told(tmp_path: Path) -> None:
    first = plan(chain(), tmp_path)
    assert {node.reason for node in first.nodes} == {"never ran"}
    directory = Path(first.nodes[0].dir)
    directory.mkdir()
    (directory / ERROR).write_text(json.dumps({"message": "disk on fire"}))
    again = plan(chain(), tmp_path).nodes[0]
    assert (again.state, again.reason) == ("failed", "failed before: disk on fire")


def test_commands_carry_directories_and_survive_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.txt").write_text("x")
    result = plan(chain(inputs=("here.txt",)), tmp_path)
    clean, pretrain, _ = result.nodes
    assert json.loads(clean.command[4])["inputs"] == [str(tmp_path / "here.txt")]  # holds in any directory
    assert json.loads(pretrain.command[4])["after"] == [clean.dir]
    assert pretrain.command[:3] == ["python", "-m", "steps.noop"]
    assert Plan.model_validate_json(result.model_dump_json()) == result


def test_what_failed_in_part_is_planned_again_unless_the_range_leaves_it_out(tmp_path: Path) -> None:
    finish(chain(), tmp_path, "clean", "pretrain", "sft")
    for node in by_name(plan(chain(), tmp_path)).values():
        if node.name != "clean":  # the step that failed in part, and what was made from it
            path = Path(node.dir) / OUTPUTS
            path.write_text(json.dumps({**json.loads(path.read_text()), "again": ["bench/arc"]}))
    again = plan(chain(), tmp_path)
    assert [(node.name, node.state) for node in again.to_run] == [("pretrain", "pending"), ("sft", "pending")]
    assert again.to_run[0].reason == "done, but failed in part: bench/arc; retried"
    assert [node.name for node in plan(chain(), tmp_path, first="sft").to_run] == ["sft"]


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
