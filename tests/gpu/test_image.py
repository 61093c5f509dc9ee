"""The image train: each field that needs more than its slim form has starts in it. `make test-image` names one."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from argosy.core.step import machine
from workflows.argo.profile.settings import FORMS

IMAGE, BUILDER = os.environ.get("ARGOSY_IMAGE", ""), os.environ.get("BUILDER", "docker")
REAL = os.environ.get("ARGOSY_REAL_MODEL", "")
ROOT = Path(__file__).resolve().parents[2]
CALLS = {"optimizer": "optimizer/adamw_8bit", "fp8": "fp8|engine/fsdp_fp8", "compile": "compile",
         "lora.kind": "sft/qlora", "tensorboard": "tensorboard", "engine.nvme_path": "offload/nvme",
         "formats": "", "model": ""}  # the paths of paths.yaml that take a field; the last two are of exports
READ = "from transformers import AutoModel as M; M.from_pretrained('/out/export/gguf', gguf_file='model.gguf')"
pytestmark = pytest.mark.skipif(not IMAGE, reason="ARGOSY_IMAGE names no image: make test-image")


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """A command, as the beginning of those that run in the image, with the tests beside its code."""
    out = tmp_path_factory.mktemp("image")
    out.chmod(0o777)
    given = [f"--volume={ROOT / 'tests'}:/src/tests:ro", f"--volume={out}:/out", "--env=PYTHONPATH=/opt/argosy:/src",
             *([f"--volume={REAL}:/real/{Path(REAL).name}:ro"] if REAL else [])]
    if BUILDER != "buildah":
        yield [BUILDER, "run", "--rm", *(["--ulimit=memlock=-1:-1"] if BUILDER == "docker" else []), *given, IMAGE]
        return
    container = subprocess.check_output(["buildah", "from", "--pull-never", IMAGE], text=True).strip()
    yield ["buildah", "run", "--isolation=chroot", *given, container, "--"]
    subprocess.run(["buildah", "rm", container], check=True)


def test_each_field_is_called() -> None:
    fields = {field for field, _, things, _ in machine._NEEDS if {*things} <= FORMS["full"] | {machine.NVCC}}
    assert fields - {"engine.quantized_communication"} == {*CALLS}  # which GPUs alone have


def test_each_field_of_training_starts(inside: list[str]) -> None:
    """What ends with an exit code of 2 is refused for want of a GPU, or of memory to lock, not of a package."""
    only = "|".join(each for each in CALLS.values() if each)
    ended = subprocess.run([*inside, "python", "-m", "tests.gpu", "--device", "cpu", "--out", "/out", "--minutes", "60",
                            "--only", f"^({only})$"], capture_output=True, text=True)
    found = json.loads(ended.stdout.splitlines()[-1])
    assert (found["failed"], found["left"]) == ([], 0), ended.stdout
    assert all(re.search("GPU|lock", row["missing"]) for row in found["paths"] if row["passed"] is None), ended.stdout
    assert found["passed"] >= 3
    subprocess.run([*inside, "python", "-c", "import bitsandbytes, torchao.float8"], check=True)


@pytest.mark.skipif(not REAL, reason="ARGOSY_REAL_MODEL names no model: make test-image fetches one")
def test_each_format_is_written_and_read(inside: list[str]) -> None:
    for step, config in (("start", {"model": f"/real/{Path(REAL).name}"}),
                         ("export", {"checkpoint": "/out/start", "formats": ["hub", "onnx", "gguf"]})):
        subprocess.run([*inside, "python", "-m", f"steps.{step}", "--config", json.dumps(config), "--out",
                        f"/out/{step}"], check=True)
    subprocess.run([*inside, "python", "-c", READ], check=True)
