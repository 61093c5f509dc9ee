"""A real model's ONNX graph computes the model's logits."""

from pathlib import Path

import pytest

from argosy.model.weights.load import load_model
from tests.unit.model.weights.test_export import differences

pytestmark = pytest.mark.real_model


def test_onnx_computes_the_logits_of_a_real_model(started: Path, tmp_path: Path) -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    found = differences(load_model(started / "checkpoints/final").eval(), tmp_path / "model.onnx")
    print("".join(f"batch, length, before {at}: {each:.1e}\n" for at, each in found.items()))
    assert all(each < 1e-3 for each in found.values()), found
