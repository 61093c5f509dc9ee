"""The graph that a config stands for: seeds, branches, what a change touches, the shipped presets."""

import re
from pathlib import Path
from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.core.store.provenance import differences, provenance_of
from steps.data import DataConfig
from steps.evaluate import EvaluateConfig
from tests.graphs import digests, nodes
from tests.trees import write_files
from workflows.argo.pod.outputs import check_deadlines
from workflows.argo.profile.profile import Profile
from workflows.cli.init import TEMPLATE
from workflows.compose import compose, preset_names
from workflows.graph import Graph, definition
from workflows.lifecycle import lifecycle
from workflows.plan import check_inputs, describe, plan, training_limit


def changed(*overrides: str) -> set[str]:
    before, after = digests(), digests(*overrides)
    return {key.partition("/")[0] for key in after if after[key] != before.get(key)}


def check(*overrides: str, stages: set[str]) -> None:
    """Ask the steps what they would refuse."""
    check_inputs(lifecycle(compose("tiny", None, overrides)), stages)


PARTS = {"continue", "finetune", "real", "7b-8gpu"}  # not all stages


@pytest.mark.parametrize("preset", sorted({*preset_names()} - PARTS))
def test_every_preset_is_a_whole_pipeline(preset: str) -> None:
    graph = Graph(nodes(preset=preset).values())
    evaluated = {up.name for node in graph.nodes if node.name == "evaluate" for up in node.upstream["checkpoint"]}
    more = {"quantize"} if preset == "demo" else set[str]()
    assert evaluated == {"pretrain", "long_context", "anneal", "sft", "twin", "dpo", "rlhf"} | more
    assert {node.name for node in graph.nodes} > {"data", "clean", "tokenizer", "tokenize", "reward_model", "compare"}


def test_a_changed_field_of_sft_touches_sft_and_what_follows_only() -> None:
    followers = {"sft", "twin", "dpo", "reward_model", "rlhf", "evaluate", "compare"}
    assert changed("sft.learning_rate=1e-5") == followers
    assert changed("rlhf.kl_coef=0.2") == {"rlhf", "evaluate", "compare"}
    assert changed("resources.sft.cores=2", "sft.log_every=4", "evaluate.together=3") == set()
    assert changed("evaluate.threads=2") == {"evaluate", "compare"}  # it changes their last digits


def test_the_seed_is_every_stages_that_sets_none() -> None:
    found = nodes("seed=5", "dpo.seed=6")
    seeds = {node.name: node.config.seed for node in found.values() if hasattr(node.config, "seed")}
    assert (seeds.pop("dpo"), set(seeds.values())) == (6, {5})


def test_the_twin_differs_from_sft_in_its_data_alone() -> None:
    found = nodes()
    honest, twin = found["sft"].config.identity(), found["twin"].config.identity()
    assert {key for key in honest if honest[key] != twin[key]} == {"stage", "conversations"}
    assert found["twin"].inputs == found["sft"].inputs


def test_a_stage_that_is_null_is_left_out_and_the_next_one_takes_its_place() -> None:
    found = nodes("long_context=null", "anneal=null", "rlhf=null", "dpo=null", "twin=false")
    assert found["sft"].upstream["checkpoint"] == (found["pretrain"],)
    left_out = {"long_context", "anneal", "rlhf", "reward_model", "dpo", "twin"}
    assert not left_out & {node.name for node in found.values()}


def test_all_exports_or_the_final_one_are_evaluated_by_suite() -> None:
    found = nodes("pretrain.exports=[0.25, 0.5, 1.0]", "evaluate.suites={probes: all, heldout: final}")
    parts = {node.part for node in found.values() if node.part.startswith("pretrain-")}
    assert parts == {"pretrain-p025-probes", "pretrain-p050-probes", "pretrain-final-probes", "pretrain-final-heldout"}


def test_a_suite_may_be_asked_of_the_last_checkpoints_of_some_stages() -> None:
    found = nodes("pretrain.exports=[0.5, 1.0]", "evaluate.suites={probes: [pretrain, sft], heldout: none}")
    parts = {node.part for node in found.values() if node.name == "evaluate" and "benchmark" not in node.part}
    assert parts == {"pretrain-final-probes", "sft-final-probes"}
    without = nodes("twin=false", "evaluate.suites={probes: [twin, sft], heldout: none}")
    assert {node.part for node in without.values() if "probes" in node.part} == {"sft-final-probes"}
    tree = nodes("posttraining=[{name: a, method: sft}]", "evaluate.suites={probes: [a]}")
    assert {node.part for node in tree.values() if "probes" in node.part} == {"a-final-probes"}
    for wrong, words in (("aneal", "nearest: anneal"), ("clean", "there are: start, pretrain, ")):
        with pytest.raises(InputError, match=rf"suites\.probes has '{wrong}', which is no stage that makes.*{words}"):
            nodes(f"evaluate.suites.probes=[{wrong}]")


def test_the_training_that_a_suite_asks_for_is_in_the_plan_and_within_a_pods_deadline(tmp_path: Path) -> None:
    suite = tmp_path / "mine.yaml"
    learnt = "[{learn_then_ask: {minutes: 3}}, cloze]"
    suite.write_text(f"benchmarks: {{tasks: {{facts: [benchmark/en.jsonl]}}, variants: {{plain: , learnt: {learnt}}}}}")
    found = plan(nodes(f"evaluate.suites={{{suite}: [anneal, sft], benchmark: none}}").values(), tmp_path / "store")
    trains = [node for node in found.to_run if node.step == "learn"]
    assert [(node.part, node.most_minutes) for node in trains] == [
        ("anneal-final-mine-learn", 3), ("sft-final-mine-learn", 3)]
    assert re.search(r"evaluate +2 +run, at most 3 minutes of training +never ran", describe(found))
    assert training_limit(*found.to_run) == "at most 6 minutes of training"
    for given in ({"stages": {"evaluate": {"deadline_s": 100}}}, {"deadline_s": 170}):
        profile = Profile.model_validate({"storage": {"claim": "a"}, **given})
        with pytest.raises(InputError, match=r"deadline_s of the profile is 1.0, .* minutes=3 in evaluate/anneal-"):
            check_deadlines(found.to_run, profile)
    check_deadlines(found.to_run, Profile.model_validate({"storage": {"claim": "a"}, "deadline_s": 180}))


def test_files_that_a_suite_names_count_by_their_bytes(tmp_path: Path) -> None:
    suite, absolute, beside = tmp_path / "mine.yaml", tmp_path / "elsewhere/a.jsonl", tmp_path / "b.jsonl"
    included, saved, pairs = (tmp_path / name for name in ("tasks/deep/task.yaml", "saved/state.json", "pairs.jsonl"))
    write_files(tmp_path, {str(path): "1" for path in (absolute, beside, included, saved, pairs)})
    tasks = f"{{a: [{absolute}, benchmark/en.jsonl], b: [b.jsonl], c: {{hf: saved, format: mmlu}}}}"
    probes = "[{name: p, kind: contrastive, file: pairs.jsonl}]"
    suite.write_text(f"benchmarks: {{tasks: {tasks}, include_path: tasks}}\nprobes: {probes}")
    override = f"evaluate.suites={{{suite}: final}}"
    for path in (absolute, beside, included, saved, pairs, suite):
        before = digests(override)
        path.write_text(path.read_text() + "\n")
        after = digests(override)
        assert {key.partition("/")[0] for key in after if after[key] != before[key]} == {"evaluate", "compare"}
    by_hand = EvaluateConfig(suite_file=str(suite))
    assert by_hand.suite_files == tuple(map(str, (absolute, beside, saved.parent, tmp_path / "tasks", pairs)))
    absolute.unlink()
    with pytest.raises(InputError, match=r"evaluate\.suite_files: .*a\.jsonl does not exist"):
        digests(override)
    suite.write_text("benchmarks: {tasks: {a: {files: a.jsonl, formt: x}}}")
    with pytest.raises(InputError, match=r"suite mine, .*tasks\.a\.formt is not a field; nearest: tasks\.a\.format"):
        nodes(override)


def test_the_texts_that_the_demo_reads_count_and_no_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("text")
    own = f"data.inputs={tmp_path}"
    demo, users = digests(), digests(own)
    by_hand = provenance_of("data", definition("data").version, DataConfig(), {})
    monkeypatch.setattr("platform.python_version", lambda: "3.99.1")
    monkeypatch.setattr("sysconfig.get_path", lambda _: "/nowhere")
    assert digests() == demo
    monkeypatch.setattr("argosy.corpus.demo.corpus._material", lambda: b"other")
    assert digests()["data"] != demo["data"]
    assert digests(own) == users
    again = provenance_of("data", definition("data").version, DataConfig(), {})
    assert [line.split()[0] for line in differences(by_hand, again)] == ["data.texts"]


def test_a_changed_filter_is_told_by_its_name_and_field() -> None:
    def record(filters: str) -> dict[str, Any]:
        config = nodes(f"clean.filters={filters}")["clean"].config.identity()
        return {"node": "clean", "step": "clean", "version": 1, "config": config}

    two = "[{name: gopher_quality, min_words: 50}, exact_dedup, {name: gopher_quality, min_words: %d}]"
    assert differences(record(two % 9), record(two % 8)) == ["clean.filters.gopher_quality-2.min_words 9 -> 8"]
    assert differences(record("[exact_dedup, near_dedup]"), record("[near_dedup, exact_dedup]")) == [
        'clean.filters order ["exact_dedup", "near_dedup"] -> ["near_dedup", "exact_dedup"]']


def test_data_of_ones_own_leaves_out_what_is_the_demos(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    own, file = f"data.inputs={tmp_path}", tmp_path / "argosy.yaml"
    file.write_text("anneal: {mixture: {text: 2}}\ntwin: true")
    layers: list[tuple[Path | None, list[str]]] = [
        (None, []), (None, [own]), (None, [own, "twin=true", "anneal.mixture={text: 1}"]), (file, [own])]
    found = [compose("tiny", *each) for each in layers]
    assert [each.twin for each in found] == [True, False, True, True]
    assert found[0].anneal.mixture  # type: ignore[union-attr]
    assert [each.anneal.mixture for each in found[1:]] == [{}, {"text": 1}, {"text": 2}]  # type: ignore[union-attr]


def test_a_mixture_says_something_of_every_channel_before_anything_runs(tmp_path: Path) -> None:
    write_files(tmp_path, {"wiki/a.txt": "text", "web/a.txt": "text"})
    own = f"data.inputs={tmp_path}"
    with pytest.raises(InputError, match=r"anneal\.mixture does not name wiki, whose documents would"):
        check(own, "anneal.mixture={web: 1}", stages={"data", "anneal"})
    for given in ("{web: 1, other: 2}", "{web: 1, wiki: 0}", "{web: 1, '*': 0}"):
        check(own, f"anneal.mixture={given}", stages={"data", "anneal"})
    with pytest.raises(InputError, match=r"anneal\.mixture\.en: no such channel with documents; there are: web, wiki"):
        check(own, "anneal.mixture={en: 1}", stages={"data", "anneal"})
    with pytest.raises(InputError, match=r"pretrain\.mixture does not name code, en, instructions, knowledge_zh"):
        check("pretrain.mixture={knowledge_en: 1}", stages={"data", "pretrain"})


def test_conversations_are_a_channel_where_they_are_of_the_demo_or_given_and_never_one_of_documents(
    tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "a.json").write_text('[{"instruction": "Hi", "output": "Hello"}]')
    own, said = f"data.inputs={tmp_path}/a.txt", f"data.instructions={tmp_path}/a.json"
    for given, tokenized in (([], True), ([own], False), ([own, said], True), ([said], True)):
        [node] = [node for node in lifecycle(compose("tiny", None, given)) if node.name == "tokenize"]
        assert ("data" in node.upstream) is tokenized
    for given, mixture, channel in (([own], "{text: 1, instructions: 1}", "instructions"),
                                    ([said], "{a: 2, other: 1}", "a")):
        with pytest.raises(InputError, match=rf"anneal\.mixture\.{channel}: no such channel"):
            check(*given, f"anneal.mixture={mixture}", stages={"data", "anneal"})
    check(said, "data.mixture={a: 2}", "sft.loss_weights={a: 2}", stages={"data", "sft"})


def test_records_of_ones_own_have_channels_and_must_not_hold_what_is_evaluated(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text("[]")

    def data(given: str) -> tuple[DataConfig, str]:
        graph = Graph(nodes(*([given] if given else []), "evaluate.suites={piqa: final, heldout: final}").values())
        node = next(node for node in graph.nodes if node.name == "data")
        assert isinstance(node.config, DataConfig)
        return node.config, graph.digest(node)

    one, digest = data(f"data.instructions={tmp_path}/a.json")
    assert (one.instructions, [Path(file).stem for file in one.suites]) == ({"a": f"{tmp_path}/a.json"}, ["piqa"])
    named = [data(f"data.instructions={{{name}: {tmp_path}/a.json}}")[1] for name in ("a", "other")]
    assert (named[0], named[1] != digest) == (digest, True)
    assert list(data(f"data.instructions=[{tmp_path}/a.json, {tmp_path}/b.json]")[0].instructions) == ["a", "b"]
    assert data("")[0].suites == ()


def test_feedback_is_learnt_from_or_refused(tmp_path: Path) -> None:
    own = tmp_path / "kto.jsonl"
    own.write_text('{"prompt": "Hi", "completion": "Hello", "label": true}\n')
    given, stages = [f"data.feedback={own}", "dpo.method=kto"], {"data", "dpo"}
    read = ["dpo.preferences=feedback.jsonl", "dpo.heldout=feedback_heldout.jsonl"]
    check(*given, *read, stages=stages)
    with pytest.raises(InputError, match=r"data\.feedback is given, and dpo would learn .* set dpo\.method=kto "
                                         r"dpo\.preferences=feedback\.jsonl dpo\.heldout=feedback_heldout\.jsonl"):
        check(*given, stages=stages)
    with pytest.raises(InputError, match=r"dpo\.preferences is 'feedback\.jsonl', and there is no feedback: set data"):
        check("dpo.method=kto", *read, stages=stages)
    with pytest.raises(InputError, match=r"set posttraining\.k\.method=kto posttraining\.k\.preferences="):
        check("posttraining=[{name: a, method: sft}, {name: k, from: a, method: kto}]", given[0], stages={"data", "k"})


def test_what_a_later_step_would_refuse_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    start = f"start.model={tmp_path / 'empty'}"
    near = "{name: near_dedup, priorities: [nowhere]}"
    for override, stage, words in (
        (f"clean.against=[{tmp_path / 'empty'}]", "clean", r"clean\.against\[0\]: .*empty has no folder index"),
        (f"clean.filters=[code_quality, {near}]", "clean", r"clean\.filters\[1\]\.priorities\.nowhere: no such"),
        (start, "start", r"start\.model is .*empty.: it has no config\.json"),
        ("sft.max_length=999", "sft", r"sft\.max_length=999 is more than the 256 tokens of the model's context")):
        with pytest.raises(InputError, match=words):
            check(override, stages={stage})
    (tmp_path / "empty/config.json").write_text('{"max_position_embeddings": 64}')
    tree = "posttraining=[{name: a, method: sft, max_length: 65}]"
    with pytest.raises(InputError, match=r"posttraining\.a\.max_length=65 is more than the 64 tokens"):
        check(start, tree, "long_context=null", stages={"a"})


@pytest.mark.parametrize(("override", "words"), [
    ("resources.sftt.cores=1", "resources.sftt.cores=1: resources.sftt: there is no such stage; nearest: sft"),
    ("evaluate.export=p050", "evaluate is wrong: export is set for each checkpoint by the pipeline"),
    ("sft.batch_size=9", "sft.batch_size=9: sft is wrong: micro_batch_size=4 does not divide batch_size=9"),
    ("pretrain.exports=0.5", "pretrain.exports=0.5: pretrain is wrong: exports=[0.5] must rise and end with 1.0"),
    ("sft.conversations=nofile.jsonl", "sft.conversations has 'nofile.jsonl', allowed: the files of the data step, "
     "instructions.jsonl, instructions_heldout.jsonl, twin.jsonl"),
    *((f"{field}=runs/x", f"{field}=runs/x: {field} is set by the pipeline, to the directory of an earlier stage")
      for field in ("clean.data", "evaluate.tokens")),
    ("anneal.carry_optimizer=true", "the optimizer of long_context, which keeps none: set long_context.keep"),
    ("rlhf.method=reinforce", "rlhf is wrong: method='reinforce' is not there; nearest: reinforce++"),
    *((f"{name}={{of: stf}}", f"{name}.of is 'stf', which makes no model here; nearest: sft")
      for name in ("quantize", "export")),
    ("sft.template=chatlm", "template is 'chatlm', which is not there; nearest: chatml")])
def test_what_is_wrong_is_named(override: str, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        nodes(override)


def test_every_example_of_the_file_that_init_writes_is_valid(tmp_path: Path) -> None:
    text = TEMPLATE.read_text(encoding="utf-8")
    (tmp_path / "texts").mkdir()
    own = str(tmp_path / "texts")
    everything = re.sub(r"^#(?!#)", "", text, flags=re.MULTILINE).replace("[texts]", f"[{own}]")
    file = tmp_path / "argosy.yaml"
    for content in (text, everything):
        file.write_text(content, encoding="utf-8")
        assert lifecycle(compose(None, file)), content
    assert compose(None, file).dpo is None
