"""Checkpoints whose weights are not whole, where every load names the tensor, or whose chat template does not end."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.model.infer.model import LanguageModel
from argosy.model.post.preferences.rewards import load_reward_model
from argosy.model.post.rl import RLHFConfig
from argosy.model.post.rl.networks import load_value_model
from argosy.model.post.stage import open_source
from argosy.model.weights import chat
from argosy.model.weights.checkpoint import find_checkpoint
from argosy.model.weights.load import check_files, load_model
from tests.posttraining_fixtures import make_checkpoint
from tests.tokenizer_fixtures import make_bpe

ROOT = Path(__file__).resolve().parents[4]
WEIGHT = "model.layers.1.mlp.up_proj.weight"


def spoil(value: float) -> Callable[[dict[str, Any]], object]:
    return lambda weights: weights[WEIGHT].__setitem__((3, 4), value)


def changed(directory: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A training step's directory, whose final weights are changed."""
    from safetensors.torch import load_file, save_file

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
    (spoil(float("-inf")), f"NaN or infinite numbers in {WEIGHT}"),
])
def test_weights_that_are_not_whole_are_refused_by_name(tmp_path: Path, change: Callable[[dict[str, Any]], object],
                                                        message: str) -> None:
    root = changed(tmp_path, change)
    path = root / "checkpoints/final"
    loads: list[Callable[[], Any]] = [
        lambda: load_model(path),
        lambda: check_files(path),  # before vLLM reads them
        lambda: LanguageModel.load(find_checkpoint(root)),
        lambda: open_source("checkpoint", str(root), "cpu").causal_model(),
        lambda: load_reward_model(open_source("checkpoint", str(root), "cpu"), seed=0),
    ]
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
    ("adapter_config.json", "{}", "is an adapter .*merge_and_unload"),
])  # fmt: skip
def test_files_that_transformers_cannot_read_are_an_error_of_the_checkpoint(tmp_path: Path, name: str, text: str,
                                                                            message: str) -> None:
    path = make_checkpoint(tmp_path) / "checkpoints/final"
    (path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        load_model(find_checkpoint(path).path)


def test_no_other_module_of_the_product_loads_weights() -> None:
    pattern = re.compile(r"(Model\w*|ForCausalLM|Classification)\W*\.from_pretrained\(")
    sources = [path for folder in ("argosy", "steps", "evals", "probes") for path in (ROOT / folder).rglob("*.py")]
    assert [path.name for path in sources if pattern.search(path.read_text())] == []


def test_a_tokenizer_without_a_template_is_refused() -> None:
    with pytest.raises(InputError, match="has no chat template"):
        chat.check_template(make_bpe(["text"], 300, template=""))
