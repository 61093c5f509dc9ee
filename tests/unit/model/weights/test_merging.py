"""Merged checkpoints: weights held to formulas that are written here in NumPy, and taken by what evaluates."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from argosy.core.errors import InputError
from argosy.core.store.files import read_json, write_json
from argosy.model.weights.checkpoint import find_checkpoint
from argosy.model.weights.load import load_model
from steps import merge, quantize
from tests.command_line import Argosy
from tests.posttraining_fixtures import make_checkpoint
from tests.training_fixtures import run_here

Parts = list[np.ndarray[Any, Any]]


def mean(parts: Parts, weights: list[float]) -> Any:
    return sum(part * weight for part, weight in zip(parts, weights, strict=True)) / sum(weights)


def slerp(parts: Parts, weights: list[float]) -> Any:
    """Along the great circle of the two directions, as Shoemake (1985), section 3.3, has it for quaternions."""
    first, second = (part.ravel() for part in parts)
    share, angle = weights[1] / sum(weights), np.arccos(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
    ends = np.sin((1 - share) * angle) / np.sin(angle), np.sin(share * angle) / np.sin(angle)
    return (ends[0] * first + ends[1] * second).reshape(parts[0].shape)


def ties(parts: Parts, weights: list[float], density: float) -> Any:
    """Weight by weight, as algorithm 1 of Yadav et al. (2023); the last of `parts` is the base."""
    *models, base = parts
    kept = []
    for model in models:
        change = (model - base).ravel()
        order = np.argsort(-np.abs(change))[: int(np.ceil(density * change.size))]
        kept.append(np.zeros_like(change))
        kept[-1][order] = change[order]
    made = base.ravel().copy()
    for at in range(made.size):
        sign = 1 if sum(weight * change[at] for weight, change in zip(weights, kept, strict=True)) >= 0 else -1
        chosen = [(weight, change[at]) for weight, change in zip(weights, kept, strict=True) if change[at] * sign > 0]
        made[at] += sum(w * c for w, c in chosen) / sum(w for w, _ in chosen) if chosen else 0
    return made.reshape(base.shape)


def weights_of(path: Path) -> dict[str, Any]:
    model = load_model(find_checkpoint(path).path)
    return {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize(("fields", "wanted"), [
    ({}, lambda parts: mean(parts[:3], [1, 1, 1])),
    ({"weights": [1, 2, 5]}, lambda parts: mean(parts[:3], [1, 2, 5])),
    ({"method": "slerp", "weights": [3, 1]}, lambda parts: slerp(parts[:2], [3, 1])),
    ({"method": "ties", "weights": [1, 2, 1], "density": 0.3}, lambda parts: ties(parts, [1, 2, 1], 0.3))])  # fmt: skip
def test_weights_are_those_of_the_formula_and_a_model_loads_them(tmp_path: Path, fields: dict[str, Any],
                                                                 wanted: Any) -> None:
    sources = [make_checkpoint(tmp_path / str(seed), seed) for seed in range(4)]
    count = 2 if fields.get("method") == "slerp" else 3
    base = {"base": sources[3]} if fields.get("method") == "ties" else {}
    run_here(merge, tmp_path / "out", checkpoint=sources[0], others=[str(path) for path in sources[1:count]], **base,
             **fields)
    parts, found = [weights_of(path) for path in sources], find_checkpoint(tmp_path / "out")
    assert (found.stage, found.tokens, found.chat) == ("merge", 1000, False)
    for name, tensor in weights_of(tmp_path / "out").items():
        constant = all(np.array_equal(part[name], parts[0][name]) for part in parts)  # norms, which are ones
        np.testing.assert_allclose(tensor, parts[0][name] if constant else wanted([part[name] for part in parts]),
                                   rtol=1e-5, atol=1e-6)


def test_what_cannot_be_merged_is_refused(tmp_path: Path) -> None:
    first, second = (make_checkpoint(tmp_path / str(seed), seed) for seed in range(2))
    larger = load_model(find_checkpoint(second).path)
    larger.resize_token_embeddings(larger.config.vocab_size + 8)
    larger.save_pretrained(tmp_path / "larger")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "larger" / name).write_bytes((find_checkpoint(second).path / name).read_bytes())
    run_here(quantize, tmp_path / "int8", checkpoint=second)
    pair = {"checkpoint": first, "others": [str(second)]}
    turned = tmp_path / "turned"
    shutil.copytree(find_checkpoint(second).path, turned)
    config = read_json(turned / "config.json")
    write_json(turned / "config.json", config | {"rms_norm_eps": 0.5})
    shape = r"\[\d+, \d+\]"
    for fields, message in (({"others": [str(tmp_path / "larger")]},
                             rf"tensor model.embed_tokens.weight is {shape} in .*larger and {shape} in .*: merge mod"),
                            ({"others": [str(turned)]}, "rms_norm_eps is 0.5 in .*turned and "),
                            ({"others": [str(first)]}, "is named twice, allowed: each model once"),
                            ({"others": [str(tmp_path / "int8")]}, "is quantized .*: name the one that it was made"),
                            ({"weights": [1, 2, 3]}, "weights has 3 values, and there are 2 checkpoints"),
                            ({"method": "ties"}, "base_of is the model that all were trained from: method=ties needs"),
                            ({"density": 0.5}, "density is of method=ties, and method is average"),
                            ({"others": [str(second)] * 2, "method": "slerp"}, "has 3 checkpoints, allowed: 2 with")):
        with pytest.raises((InputError, ValueError), match=message):
            run_here(merge, tmp_path / "out", **{**pair, **fields})
    write_json(turned / "config.json", config | {"unsloth_version": "1", "torch_dtype": "bfloat16", "eos_token_id": 0})
    run_here(merge, tmp_path / "out", checkpoint=first, others=[str(turned)])


def test_the_command_merges_what_it_names(tmp_path: Path, argosy: Argosy, no_mlflow: None) -> None:
    for seed in range(2):
        make_checkpoint(tmp_path / f"runs/source-0123456789a{seed}", seed)
    named = [str(tmp_path / f"runs/source-0123456789a{seed}") for seed in range(2)]
    store = ["--store", str(tmp_path / "runs")]
    said = argosy("merge", *named, "--by", "slerp", *store)
    [out] = (tmp_path / "runs").glob("merge-*")
    assert str(out) in said.out
    assert find_checkpoint(out).stage == "anneal-slerp"
    assert read_json(out / "run.json")["config"]["of"] == named
    assert "is named twice, allowed: each model once" in argosy("merge", named[0], *named, *store, code=2).err
    assert "merge takes two checkpoints or more" in argosy("merge", named[0], *store, code=2).err
    assert "--density is of --by ties, and --by is average" in argosy(
        "merge", *named, "--density", ".5", *store, code=2).err
