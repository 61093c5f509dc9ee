"""A tree of post-training: its nodes, what a change touches, overrides by name, what is refused and how."""

from pathlib import Path

import pytest

from argosy.errors import InputError
from workflows.compose import compose
from workflows.graph import Graph, Node
from workflows.lifecycle import LifecycleConfig, lifecycle

TREE = """\
preset: tiny
resources: {b: {cores: 2}}
posttraining:
  - {name: a, method: sft, max_steps: 4}
  - {name: b, from: a, method: simpo, beta: 2.0}
  - {name: judge_model, from: a, method: reward_model}
  - {name: c, from: b, method: grpo, reward_model: judge_model}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tree.yaml"
    path.write_text(TREE)
    return path


def nodes(file: Path, *overrides: str) -> dict[str, Node]:
    return {node.id: node for node in lifecycle(compose(None, file, overrides))}


def digests(file: Path, *overrides: str) -> dict[str, str]:
    graph = Graph(nodes(file, *overrides).values())
    return {node.id: graph.digest(node) for node in graph.nodes}


def test_items_train_what_they_are_from_and_take_the_place_of_the_default_tree(file: Path) -> None:
    found = nodes(file)
    upstream = {name: {field: [n.name for n in ups] for field, ups in found[name].upstream.items()}
                for name in ("a", "b", "c")}  # fmt: skip
    assert upstream == {
        "a": {"checkpoint": ["anneal"], "data": ["data"]}, "b": {"checkpoint": ["a"], "data": ["data"]},
        "c": {"checkpoint": ["b"], "data": ["data"], "reward_model": ["judge_model"]},
    }  # fmt: skip
    assert not {"sft", "twin", "dpo", "reward_model", "rlhf"} & {*found}
    assert (found["b"].step, found["b"].config.method, found["b"].config.stage) == ("preference", "simpo", "b")
    assert found["b"].resources.cores == 2
    evaluated = {node.upstream["checkpoint"][0].name for node in found.values() if node.name == "evaluate"}
    assert evaluated == {"pretrain", "long_context", "anneal", "a", "b", "c"}
    assert [node.name for node in found["compare"].upstream["others"]][-1] == "judge_model"


def test_an_item_that_mixes_pretraining_texts_in_reads_the_token_ids(file: Path) -> None:
    found = nodes(file, "posttraining.a.pretraining_share=0.1")
    assert [node.name for node in found["a"].upstream["tokenized"]] == ["tokenize"]
    assert "tokenized" not in found["b"].upstream


@pytest.mark.parametrize("which", ["b", "1"])
def test_a_change_of_one_item_by_name_or_index_touches_it_and_what_follows(file: Path, which: str) -> None:
    before, after = digests(file), digests(file, f"posttraining.{which}.learning_rate=1e-4")
    assert nodes(file, f"posttraining.{which}.learning_rate=1e-4")["b"].config.learning_rate == 1e-4
    touched = {key.partition("/")[0] for key in after if after[key] != before[key]}
    assert touched == {"b", "c", "evaluate", "compare"}


def test_a_config_is_read_back_from_its_record(file: Path) -> None:
    config = compose(None, file)
    assert LifecycleConfig.model_validate(config.model_dump(mode="json", exclude_unset=True)) == config


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("posttraining.a.learning_rat=1", "posttraining[0].learning_rat is not a field; nearest: learning_rate"),
        ("posttraining.1.learning_rate=-1", "posttraining[1].learning_rate is -1, allowed: a number above 0"),
        ("posttraining.b.method=dp", "posttraining[1].method is 'dp', which is not there; nearest: dpo"),
        ("posttraining.b.name=a", "posttraining[1].name is 'a', as an earlier item's"),
        ("posttraining.b.name=tokenize", "which is a stage of the pipeline"),
        ("posttraining.b.name=b-c", "allowed: a letter, then letters"),
        ("posttraining.b.from=c", "posttraining[1].from is 'c', which does not come before it"),
        ("posttraining.b.from=b", "so that there is no cycle"),
        ("posttraining.c.from=judge_mode", "no earlier item is called so; nearest: judge_model"),
        ("posttraining.c.from=judge_model", "a reward model, which writes no answers"),
        ("posttraining.c.reward_model=''", "posttraining[3].reward_model is missing, and its rewards ask one"),
        ("posttraining.c.reward_model=b", "whose method is simpo"),
        ("posttraining.b.reward_model=a", "posttraining[1].reward_model is 'a', whose method is sft"),
        ("posttraining.a.checkpoint=x", "posttraining[0].checkpoint is set by the pipeline"),
        ("posttraining.a.conversations=[x]", "posttraining[0].conversations has 'x', allowed: the files of"),
        ("posttraining.bb.seed=3", "posttraining has no item called 'bb'; nearest: b"),
        ("resources.d.cores=3", "there is no such stage"),
        ("stages=[c,judge_model]", "stages has c, which needs b: add it"),
        ("stages=[sft]", "stages has 'sft': there is no such stage"),
        ("sft.seed=3", "posttraining and sft are both given"),
    ],
)  # fmt: skip
def test_what_is_no_tree_is_refused_in_words(file: Path, override: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        compose(None, file, [override])
    assert says in str(error.value)
