"""Parts of the graph: a model to begin with, stages that are named, and what is refused."""

import re
from pathlib import Path

import pytest

from argosy.core.errors import InputError
from argosy.core.step.command import parse_config
from argosy.core.store.files import make_directory, write_json
from tests.graphs import digests, nodes
from tests.trees import write_files
from workflows.compose import compose
from workflows.graph import Graph, Node, definition
from workflows.lifecycle import lifecycle
from workflows.plan import check_inputs, plan
from workflows.stages import Stages

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def model(tmp_path: Path) -> str:
    """An override that begins with a model."""
    return f"start.model={write_files(tmp_path / 'model', {'config.json': '{}'})}"


def inputs(node: Node) -> dict[str, list[str]]:
    return {field: [other.name for other in others] for field, others in node.upstream.items() if others}


@pytest.mark.parametrize(("preset", "checkpoints"), [
    ("continue", {"start": None, "pretrain": "start", "anneal": "pretrain"}),
    ("finetune", {"start": None, "sft": "start"}),
    ("real", {"start": None, "sft": "start", "twin": "start", "dpo": "sft", "rlhf": "sft"})])  # fmt: skip
def test_the_presets_that_begin_with_a_model(model: str, preset: str, checkpoints: dict[str, str | None]) -> None:
    found = nodes(model, preset=preset)
    assert {name: inputs(found[name]).get("checkpoint", [None])[0] for name in checkpoints} == checkpoints
    assert "tokenizer" not in found
    assert {node.upstream["checkpoint"][0].name for node in found.values() if node.name == "evaluate"} == {*checkpoints}


def test_a_stage_that_is_not_known_is_an_error_and_not_left_out() -> None:
    config = compose("tiny")
    stage = Stages(config.seed, config.resources, config.known(), config.chosen())
    for step in (config.sft, None):
        with pytest.raises(InputError, match="stage 'dopt' is none of the pipeline's; nearest: dpo"):
            stage("dopt", "sft", step)
    assert stage("classifier", "train_classifier", None) is None
    assert stage.nodes == []


def test_with_start_alone_tokenizer_and_pretraining_are_left_out(model: str) -> None:
    found = nodes(model)
    assert not {"tokenizer", "pretrain"} & found.keys()
    assert inputs(found["tokenize"]) == {"documents": ["clean"], "scored": ["score"], "tokenizer": ["start"],
                                         "data": ["data"]}
    assert inputs(found["long_context"]) == {"checkpoint": ["start"], "tokenized": ["tokenize"]}
    assert inputs(found["compare"])["checkpoints"][0] == "start"


@pytest.mark.parametrize(("stages", "names"), [
    ("clean", {"data", "score", "clean"}),
    ("evaluate", {"data", "start", "evaluate"}),
    ("dpo,sft", {"data", "start", "sft", "dpo"}),
    ("clean,tokenize,pretrain", {"data", "score", "clean", "start", "tokenize", "pretrain"})])  # fmt: skip
def test_named_stages_are_there_with_what_they_need(model: str, stages: str, names: set[str]) -> None:
    preset = "continue" if "pretrain" in names else "tiny"  # the other one's pretraining has a model of its own
    suites = ["evaluate.suites.heldout=none"] if "evaluate" in names else []
    found = nodes(model, f"stages={stages}", *suites, preset=preset)
    assert {node.name for node in found.values()} == names
    Graph(found.values())
    wanted = {"pretrain": {"checkpoint": ["start"], "tokenized": ["tokenize"]},
              "dpo": {"checkpoint": ["sft"], "data": ["data"]}}  # fmt: skip
    assert all(inputs(found[name]) == each for name, each in wanted.items() if name in names)


def test_the_files_of_the_page_are_planned(model: str, tmp_path: Path) -> None:
    page = (Path(lifecycle.__code__.co_filename).parents[1] / "docs/start.md").read_text(encoding="utf-8")
    rows = [re.findall(r"`(\w+: [^`]*)`", line) for line in page.splitlines() if line.startswith("| ")]
    files = ["\n".join(fields) for fields in rows if fields]
    assert len(files) == 5
    write_files(tmp_path, {"texts/a.txt": "A text.", "pairs.jsonl": "{}"})
    for file in files:
        named = file.replace("DIR", model.partition("=")[2]).replace("[texts]", f"[{tmp_path / 'texts'}]")
        (tmp_path / "argosy.yaml").write_text(named.replace("pairs.jsonl", str(tmp_path / "pairs.jsonl")))
        assert plan(lifecycle(compose(None, tmp_path / "argosy.yaml")), tmp_path / "runs").to_run, file


def test_a_new_model_needs_no_start() -> None:
    found = digests("stages=[clean, tokenizer, tokenize, pretrain]")
    assert {"tokenizer", "pretrain"} <= found.keys()
    assert found.items() <= digests().items()


@pytest.mark.parametrize(("overrides", "words"), [
    (["stages=sfft"], "stages has 'sfft': there is no such stage; nearest: sft"),
    (["stages=sft"], "stage sft needs a model: set start.model, or add a stage that trains one"),
    (["stages=evaluate"], "stage evaluate needs a model: set start.model"),
    (["stages=clean,tokenize"], "stage tokenize needs a tokenizer: set start.model, whose own is taken, or add"),
    (["stages=tokenizer"], "stage tokenizer needs cleaned documents: add clean to stages"),
    (["start.model=.", "stages=anneal"], "stage anneal needs token ids: add tokenize to stages"),
    (["start.model=.", "stages=clean,tokenizer"], "stages has tokenizer, and start.model has one of its own"),
    (["start.model=.", "stages=dpo", "dpo=null"], "stages has dpo, which is left out by dpo=null"),
    (["start.model=.", "stages=rlhf"], "stages has rlhf, whose rewards ask the reward model: add reward_model"),
    (["start.model=.", "stages=clean,tokenize,pretrain", "pretrain.model.hidden_size=64"],
     "pretrain.model describes a new model, and start.model is there already"),
    (["start.model=.", "stages=evaluate", "evaluate.suites={heldout: final}"],
     "evaluate.suites has heldout, whose held-out loss needs the stage tokenize"),
    (["start.chat=true"], "start.model is empty: name the directory of a model"),
    (["start.model=org/name"], "there is no such directory, and a name of the hub needs a commit, since a branch or"),
    (["start.model=.", "stages=[sft]", "rlhf.kl_coef=0.1"],
     "rlhf.kl_coef: there is no stage rlhf in this pipeline (it has: sft), and nobody would read it: add rlhf"),
    (["posttraining=[]"], "posttraining is [], allowed: one item or more")])  # fmt: skip
def test_what_cannot_be_is_refused_with_what_can(overrides: list[str], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        nodes(*overrides)


def test_a_model_counts_by_its_bytes_or_by_its_commit(model: str, tmp_path: Path) -> None:
    def digest(override: str) -> str:
        return digests(override, "stages=start")["start"]

    by_bytes = digest(model)
    (tmp_path / "model").rename(tmp_path / "moved")
    assert digest(f"start.model={tmp_path / 'moved'}") == by_bytes
    (tmp_path / "moved" / "config.json").write_text("{ }")
    assert digest(f"start.model={tmp_path / 'moved'}") != by_bytes
    assert len({digest(f"start.model=org/name@{commit}") for commit in (COMMIT, COMMIT[::-1])}) == 2


def test_a_finished_step_is_begun_with_as_its_final_checkpoint_is(tmp_path: Path) -> None:
    step = tmp_path / "sft-0123456789ab"

    def planned(directory: Path) -> str:
        config = compose("tiny", None, [f"start.model={directory}", "stages=start"])
        [node] = lifecycle(config)
        check_inputs([node], {"start"})
        return Graph([node]).digest(node)

    for name in ("p050", "p100"):
        folder = make_directory(step / "checkpoints" / name)
        write_json(folder / "config.json", {"model_type": "llama", "name": name})
        write_json(folder / "tokenizer.json", {})
    write_json(step / "node.json", {"node": "sft"})
    with pytest.raises(InputError, match=r"the step sft has not finished there: .*checkpoints/p050, .*p100"):
        planned(step)
    done = {"outputs": {"final": "checkpoints/p100"}, "made_from": {"node": "sft"}}
    write_json(step / "outputs.json", done)
    assert planned(step) == planned(step / "checkpoints/p100") != planned(step / "checkpoints/p050")
    write_json(step / "outputs.json", done | {"outputs": {}})
    with pytest.raises(InputError, match="it is the directory of the step sft, which trains no model: name one that"):
        planned(step)


def _settled(monkeypatch: pytest.MonkeyPatch, cpu: str, model: str, *given: str) -> tuple[set[str], dict[str, str]]:
    """The precisions of SFT and of the evaluations that a machine with `cpu` plans, and all digests."""
    monkeypatch.setattr("argosy.core.step.machine._cpu_flags", lambda: frozenset(cpu.split()))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    overrides = (model, "resources.sft.cores=1", *given)
    found = nodes(*overrides, preset="finetune").values()
    dtypes = {f"{node.name} {node.config.dtype}" for node in found if hasattr(node.config, "dtype")}
    return dtypes, digests(*overrides, preset="finetune")


def test_a_machine_without_bfloat16_settles_float32_which_the_digest_counts(model: str,
                                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    config = Path(model.partition("=")[2]) / "config.json"
    config.write_text('{"model_type": "llama", "dtype": "bfloat16"}')
    new, old = "avx2 avx512f amx_bf16", "avx2 avx512f avx512bw"
    fast, slow = _settled(monkeypatch, new, model), _settled(monkeypatch, old, model)
    assert (fast[0], slow[0]) == ({"sft bfloat16", "evaluate weights"}, {"sft float32", "evaluate float32"})
    assert {name.partition("/")[0] for name in fast[1] if fast[1][name] != slow[1][name]} == {
        "sft", "evaluate", "compare"}
    for dtype, same in (("float32", slow), ("bfloat16", fast)):  # what is explicit is the same on both
        assert all(_settled(monkeypatch, cpu, model, f"sft.dtype={dtype}", f"evaluate.dtype={dtype}") == same
                   for cpu in (new, old))
    assert _settled(monkeypatch, "asimd bf16", model) == fast  # of ARM
    assert _settled(monkeypatch, old, model, "resources.sft.gpus=1", "resources.evaluate.gpus=1") == fast
    for step in ("sft", "rlhf", "synthesize"):
        assert parse_config(definition(step), {"dtype": "auto"}).identity()["dtype"] == "float32"  # by hand
    config.write_text('{"model_type": "llama", "dtype": "float16"}')
    assert "evaluate float32" in _settled(monkeypatch, new, model)[0]
