"""A tree of post-training: its nodes, what a change touches, overrides by name, what is refused and how."""

import re
from pathlib import Path

import pytest

from argosy.core.errors import InputError
from tests.graphs import digests, nodes
from workflows.compose import compose
from workflows.graph import Node
from workflows.lifecycle import LifecycleConfig

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


def links(found: dict[str, Node], names: str) -> dict[str, dict[str, list[str]]]:
    return {name: {field: [n.name for n in ups] for field, ups in found[name].upstream.items()}
            for name in names.split()}  # fmt: skip


def test_items_train_what_they_are_from_and_take_the_place_of_the_default_tree(file: Path) -> None:
    found = nodes(file=file)
    assert links(found, "a b c") == {
        "a": {"checkpoint": ["anneal"], "data": ["data"]}, "b": {"checkpoint": ["a"], "data": ["data"]},
        "c": {"checkpoint": ["b"], "data": ["data"], "reward_model": ["judge_model"]}}  # fmt: skip
    assert not {"sft", "twin", "dpo", "reward_model", "rlhf"} & {*found}
    assert (found["b"].step, found["b"].config.method, found["b"].config.stage) == ("preference", "simpo", "b")
    assert found["b"].resources.cores == 2
    evaluated = {node.upstream["checkpoint"][0].name for node in found.values() if node.name == "evaluate"}
    assert evaluated == {"pretrain", "long_context", "anneal", "a", "b", "c"}
    assert "judge_model" in [node.name for node in found["compare"].upstream["others"]]


def test_an_item_that_mixes_pretraining_texts_in_reads_the_token_ids(file: Path) -> None:
    mixed = nodes("posttraining.a.pretraining_share=0.1", file=file)
    default = nodes("sft.pretraining_share=0.1")
    for reads, node in ((True, mixed["a"]), (False, mixed["b"]), (True, default["sft"]), (True, default["twin"])):
        assert ([each.name for each in node.upstream.get("tokenized", ())] == ["tokenize"]) is reads


MADE = """\
preset: tiny
posttraining:
  - {name: chat, method: sft}
  - {name: better, from: chat, method: rejection_sampling, rewards: {accept: 1.0}, threshold: 1.0, n: 4}
  - {name: again, from: chat, method: sft, data: better}
  - {name: pairs, from: again, method: on_policy_pairs}
  - {name: simple, from: again, method: simpo, data: pairs, beta: 2.0}
  - {name: taught, method: distillation, teacher: "http://x/v1", teacher_model: m}
  - {name: policy, from: again, method: grpo, seed: 5, rewards: {accept: 1.0}}
"""


@pytest.fixture
def made(tmp_path: Path) -> Path:
    path = tmp_path / "made.yaml"
    path.write_text(MADE)
    return path


def test_an_item_makes_data_that_a_later_one_trains_on_and_is_not_evaluated(made: Path) -> None:
    found = nodes(file=made)
    assert links(found, "better again simple taught") == {
        "better": {"checkpoint": ["chat"], "data": ["data"]}, "again": {"checkpoint": ["chat"], "data": ["better"]},
        "simple": {"checkpoint": ["again"], "data": ["pairs"]}, "taught": {"data": ["data"]}}  # fmt: skip
    assert (found["better"].step, found["better"].config.method) == ("synthesize", "rejection_sampling")
    assert any(suite.endswith("benchmark.yaml") for suite in found["better"].config.suites)
    held = [(each.seed, each.limit) for each in found["better"].config.heldout]
    assert held == [(5, 128), (compose(None, made).seed, 128)]  # those of the item of RL, and of one without a seed
    assert found["taught"].config.processes == 1
    evaluated = {node.upstream["checkpoint"][0].name for node in found.values() if node.name == "evaluate"}
    assert evaluated == {"pretrain", "long_context", "anneal", "chat", "again", "simple", "policy"}
    assert links(found, "leaks")["leaks"]["made"] == ["better", "pairs", "taught"]
    assert {"better", "pairs", "taught"} <= {node.name for node in found["compare"].upstream["others"]}


def test_a_change_of_one_item_by_name_or_index_touches_it_and_what_follows(file: Path) -> None:
    before = digests(file=file)
    after = [digests(f"posttraining.{which}.learning_rate=1e-4", file=file) for which in ("b", "1")]
    assert after[0] == after[1]
    touched = {key.partition("/")[0] for key in before if after[0][key] != before[key]}
    assert touched == {"b", "c", "evaluate", "compare"}


def test_a_config_is_read_back_from_its_record(file: Path) -> None:
    config = compose(None, file)
    assert LifecycleConfig.model_validate(config.model_dump(mode="json", exclude_unset=True)) == config


@pytest.mark.parametrize(("override", "says"), [
    ("posttraining.a.learning_rat=1", "posttraining[0].learning_rat is not a field; nearest: learning_rate"),
    ("posttraining.b.method=dp", "posttraining[1].method is 'dp', which is not there; nearest: dpo"),
    ("posttraining.b.name=a", "posttraining[1].name is 'a', as an earlier item's"),
    ("posttraining.b.name=tokenize", "which is a stage of the pipeline"),
    ("posttraining.b.from=c", "posttraining[1].from is 'c', which does not come before it"),
    ("posttraining.c.from=judge_mode", "no earlier item is called so; nearest: judge_model"),
    ("posttraining.c.from=judge_model", "a reward model, which writes no answers"),
    ("posttraining.c.reward_model=''", "posttraining[3].reward_model is missing, and its rewards ask one"),
    ("posttraining.b.reward_model=a", "posttraining[1].reward_model is 'a', whose method is sft"),
    ("posttraining.a.checkpoint=x", "posttraining[0].checkpoint is set by the pipeline"),
    ("posttraining.a.conversations=[x]", "posttraining[0].conversations has 'x', allowed: the files of"),
    ("stages=[c,judge_model]", "stages has c, which needs b: add it"),
    ("sft.seed=3", "posttraining and sft are both given"),
    ("posttraining.again.data=chat", "posttraining[2].data is 'chat', which trains a model and makes no data"),
    ("posttraining.simple.data=better", "data is 'better', which makes instructions, and simpo reads preferences"),
    ("posttraining.again.from=better", "from is 'better', which makes data and trains no model: set data=better"),
    ("posttraining.policy.data=better", "data is 'better', and grpo reads the data step's prompts alone"),
    ("posttraining.taught.from=chat", "from is 'chat', and a teacher answers: leave one of the two out"),
    ("posttraining.better.rewards={model: 1}", "posttraining[1].reward_model is missing"),
    ("posttraining.better.prompts=facts.jsonl", "posttraining[1].prompts is 'facts.jsonl', allowed: 'prompts.jsonl'"),
])  # fmt: skip
def test_what_is_no_tree_is_refused_in_words(file: Path, made: Path, override: str, says: str) -> None:
    of_made = re.search("again|simple|policy|taught|better", override)
    with pytest.raises(InputError, match=re.escape(says)):
        compose(None, made if of_made else file, [override])


def test_a_quantized_item_is_evaluated_and_nothing_trains_it(tmp_path: Path) -> None:
    path = tmp_path / "tree.yaml"
    tree = "preset: tiny\nposttraining:\n  - {name: a, method: sft}\n  - {name: b, from: a, method: awq}"
    path.write_text(f"{tree}\n  - {{name: c, method: int8}}\nexport: {{of: b, formats: [onnx, hub]}}\n")
    found = nodes(file=path)
    assert links(found, "b c") == {
        "b": {"checkpoint": ["a"], "tokenized": ["tokenize"]}, "c": {"checkpoint": ["anneal"]}}
    assert (found["b"].config.method, found["b"].config.stage) == ("awq", "b")
    evaluated = {node.upstream["checkpoint"][0].name for node in found.values() if node.name == "evaluate"}
    assert evaluated == {"pretrain", "long_context", "anneal", "a", "b", "c"}
    of = [node.id for node in found["export"].upstream["evaluations"]]
    assert of == ["evaluate/b-final-benchmark", "evaluate/b-final-heldout", "evaluate/b-final-probes"]
    path.write_text(f"{tree}\n  - {{name: c, from: b, method: dpo}}\n")
    with pytest.raises(InputError, match=r"from is 'b', whose weights are quantized, .*: begin with a"):
        nodes(file=path)


def test_a_merge_is_of_several_items_and_later_ones_train_it(tmp_path: Path) -> None:
    path = tmp_path / "tree.yaml"
    path.write_text("preset: tiny\nposttraining:\n  - {name: a, method: sft}\n  - {name: b, from: a, method: dpo}\n"
                    "  - {name: soup, method: ties, of: [a, pretrain/p050, b], base_of: anneal}\n"
                    "  - {name: c, from: soup, method: sft}\n")
    found = nodes(file=path)
    assert links(found, "soup c") == {"soup": {"checkpoint": ["a"], "others": ["pretrain", "b"], "base": ["anneal"]},
                                      "c": {"checkpoint": ["soup"], "data": ["data"]}}
    assert (found["soup"].config.export, found["soup"].config.exports) == ("final", ("p050", "final"))
    assert "evaluate/soup-final-benchmark" in found
    for change, message in (("posttraining.soup.of=[a,c]", "soup.of has 'c', which makes no model here"),
                            ("posttraining.soup.of=[a,b/p050]", "has 'b/p050', and b makes final: name one, or add"),
                            ("posttraining.soup.from=a", "from is 'a', and a merge is of several")):
        with pytest.raises(InputError, match=message):
            nodes(change, file=path)
