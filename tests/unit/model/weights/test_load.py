"""Loads of checkpoints: weights that are not whole are refused by name, and no code beside a model ever runs."""

import ast
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from argosy.core.errors import InputError
from argosy.model.infer.model import LanguageModel
from argosy.model.post.preferences.rewards import load_reward_model
from argosy.model.post.rl import RLHFConfig
from argosy.model.post.rl.networks import load_value_model
from argosy.model.post.stage import open_source
from argosy.model.weights.checkpoint import find_checkpoint
from argosy.model.weights.load import check_files, load_model
from tests import warm
from tests.evaluation_fixtures import save_checkpoint
from tests.posttraining_fixtures import make_checkpoint

WEIGHT = "model.layers.1.mlp.up_proj.weight"


def spoil(value: float) -> Callable[[dict[str, Any]], object]:
    return lambda weights: weights[WEIGHT].__setitem__((3, 4), value)


def changed(directory: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A training step's directory, whose final weights are changed."""
    file = make_checkpoint(directory) / "checkpoints/final/model.safetensors"
    weights = load_file(file)
    change(weights)
    save_file(weights, file, metadata={"format": "pt"})
    return directory


@pytest.mark.parametrize(("change", "message"), [
    (lambda weights: [weights.pop(name) for name in list(weights) if ".layers.1." in name],  # half of its layers
     r"lacks model\.layers\.1\.input_layernorm\.weight and 8 more tensors of LlamaFor"),
    (lambda weights: weights.update({"model.layers.2.x": weights[WEIGHT].clone()}),
     r"has model\.layers\.2\.x, for which LlamaFor.* has no place"),
    (lambda weights: weights.update({WEIGHT: weights[WEIGHT][:5].clone()}),
     re.escape(f"has another shape of {WEIGHT} ([5, 64], not [128, 64])")),
    (spoil(float("nan")), f"NaN or infinite numbers in {WEIGHT}"),
    (spoil(float("-inf")), f"NaN or infinite numbers in {WEIGHT}")])
def test_weights_that_are_not_whole_are_refused_by_name(tmp_path: Path, change: Callable[[dict[str, Any]], object],
                                                        message: str) -> None:
    root = changed(tmp_path, change)
    path = root / "checkpoints/final"
    loads: list[Callable[[], Any]] = [
        lambda: load_model(path),
        lambda: check_files(path),  # before vLLM reads them
        lambda: LanguageModel.load(find_checkpoint(root)),
        lambda: open_source("checkpoint", str(root), "cpu").causal_model(),
        lambda: load_reward_model(open_source("checkpoint", str(root), "cpu"), seed=0)]
    for load in loads:
        with pytest.raises(InputError, match=message):
            load()


def test_tied_weights_and_a_new_head_are_not_missing_but_a_lost_head_is(tmp_path: Path) -> None:
    source = open_source("checkpoint", str(make_checkpoint(tmp_path)), "cpu")
    model = source.causal_model()
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert load_reward_model(source, seed=0).score.weight.shape == (1, 64)
    with pytest.raises(InputError, match=r"lacks score\.weight of LlamaForSequenceClassification"):
        load_reward_model(source)
    stage: Any = SimpleNamespace(config=RLHFConfig(reward_model=str(tmp_path)), source=source)
    with pytest.raises(InputError, match=r"lacks score\.weight of LlamaForSequenceClassification"):
        load_value_model(stage)
    stage.config = RLHFConfig()
    assert not load_value_model(stage).score.weight.any()


@pytest.mark.parametrize(("name", "text", "message"), [
    ("model.safetensors", "cut short", "cannot load the checkpoint .*final: "),
    ("config.json", "{", "cannot load the checkpoint .*final: "),
    ("adapter_config.json", '{"base_model_name_or_path": "org/base"}',
     r"is an adapter \(adapter_config.json\) of org/base, .*merge_and_unload")])  # fmt: skip
def test_files_that_transformers_cannot_read_are_an_error_of_the_checkpoint(tmp_path: Path, name: str, text: str,
                                                                            message: str) -> None:
    path = make_checkpoint(tmp_path) / "checkpoints/final"
    (path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        load_model(find_checkpoint(path).path)


ROOT = Path(__file__).resolve().parents[4]
PACKAGES = ("argosy", "steps", "evals", "probes", "workflows", "benchmarks")
SUITE = "probes: [{name: river, kind: perplexity, texts: [the river]}]"
CODE = """from pathlib import Path
Path({marker!r}).write_text("it has run")
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
class OwnConfig(LlamaConfig):
    model_type = "own"
class OwnModel(LlamaForCausalLM):
class OwnTokenizer(PreTrainedTokenizerFast):
    pass
"""
# What a person types, each in one process; every one of them loads the model's config, most its weights too.
DRIVER = """import sys
from steps import start
from argosy.core.step.command import main as step
from workflows.cli import main as argosy
from workflows.local import shipping
shipping.COMMAND = ("-c", "import sys; '--once' in sys.argv or sys.stdin.read()")  # MLflow takes seconds to be imported
model, folder = sys.argv[1:]
store = ["--store", f"{folder}/runs"]
config = '{"model": "%s"}' % model
commands = {
    "start": lambda: step(start.STEP, ["--config", config, "--out", f"{folder}/start"]),
    "evaluate": lambda: argosy(["evaluate", model, "--suite", f"{folder}/suite.yaml", "--threads", "1", *store]),
    "generate": lambda: argosy(["generate", model, "the", "--max-tokens", "2", *store]),
    "convert": lambda: argosy(["convert", model, "--to", "torchtitan", "--out", f"{folder}/converted", *store]),
    "size": lambda: argosy(["size", "--model-dir", model]),
    "chat": lambda: argosy(["chat", model, "--max-tokens", "2", *store]),  # which takes all of the input
}
for name, run in commands.items():
    try:
        code = run()
    except SystemExit as end:
        code = end.code
    print(f"\\n{name} {code}", file=sys.stderr, flush=True)
"""


def with_code(directory: Path, marker: Path, *, native: bool) -> Path:
    """Save a model whose `auto_map` names classes that leave a mark; of a type of transformers, or of its own."""
    path = save_checkpoint(directory, chat=True).path
    (path / "own.py").write_text(CODE.format(marker=str(marker)))
    for name, fields in {
        "config.json": {"auto_map": {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}},
        "tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["own.OwnTokenizer", "own.OwnTokenizer"]}}}.items():
        about = json.loads((path / name).read_text(encoding="utf-8")) | fields
        about |= {} if native or "model_type" not in about else {"model_type": "own"}
        (path / name).write_text(json.dumps(about))
    return path


@pytest.mark.parametrize("native", [True, False])
def test_code_beside_a_model_never_runs(tmp_path: Path, native: bool) -> None:
    marker = tmp_path / "marker"
    model = with_code(tmp_path / "model", marker, native=native)
    (tmp_path / "suite.yaml").write_text(SUITE)
    done = warm.run([sys.executable, "-c", DRIVER, model, tmp_path], given="y\n" * 40, cwd=ROOT)
    codes = dict(re.findall(r"^(\w+) (\d)$", done.stderr, re.MULTILINE))
    commands = ("start", "evaluate", "generate", "convert", "chat")
    assert codes == {**dict.fromkeys(commands, "0" if native else "2"), "size": codes["size"]}, done.stderr[-2000:]
    said = "needs Python code of its own (auto_map: own.OwnConfig, own.OwnModel, own.OwnTokenizer), which is never run"
    assert done.stderr.count(said) == (0 if native else len(commands))
    assert not marker.exists()


def test_transformers_loads_in_one_place() -> None:
    """Every other call would ask on standard input whether the model's own code may run."""
    found = {}
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                 if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                 and node.func.attr in ("from_pretrained", "from_config")}
        found[str(path.relative_to(ROOT))] = calls - {"LoraConfig.from_pretrained"}  # PEFT's, which has no code
    assert {path for path, calls in found.items() if calls} == {"argosy/model/weights/pretrained.py"}
