"""GGUF, which llama.cpp and its kin load, written by llama.cpp's own converter."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from argosy.core.errors import InputError, StepError
from argosy.model.weights.exports import Format, Source

SCRIPT = "convert_hf_to_gguf.py"
FOLDER = "LLAMA_CPP"  # environment variable: where llama.cpp's repository is
_TYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "int8": "q8_0"}


class Gguf(Format):
    name: ClassVar[str] = "gguf"
    packages: ClassVar[tuple[str, ...]] = ("sentencepiece",)
    dtypes: ClassVar[tuple[str, ...]] = tuple(_TYPES)

    def check(self) -> None:
        """Check the package that the converter imports, and the converter."""
        super().check()
        converter()

    def write(self, source: Source, out: Path) -> dict[str, float]:
        """Run the converter on the checkpoint, whole: of an adapter, the merged model."""
        dtype = source.dtype or self.dtypes[0]
        whole, file = out / "whole", out / "model.gguf"
        whole.mkdir()
        source.save_whole(whole)
        done = subprocess.run([sys.executable, str(converter()), str(whole), "--outfile", str(file), "--outtype",
                               _TYPES[dtype]], capture_output=True, text=True)  # fmt: skip
        shutil.rmtree(whole)
        if "pre-tokenizer was not recognized" in done.stderr:
            raise InputError(f"the tokenizer of {source.path} cuts text by a pattern that llama.cpp has not, as those "
                             "do that are trained here: start from a model that it knows, or export hub or onnx")
        if done.returncode or not file.is_file():
            last = next(iter(done.stderr.strip().splitlines()[::-1]), f"exit code {done.returncode}")
            raise StepError(f"{SCRIPT} failed: {last}; its whole output:\n{done.stderr}")
        return {}


def converter() -> Path:
    """Find llama.cpp's converter, in the folder of LLAMA_CPP, or else on the PATH. Raises InputError: there is none."""
    named = os.environ.get(FOLDER)
    for found in (named and Path(named).expanduser() / SCRIPT, shutil.which(SCRIPT)):
        if found and Path(found).is_file():
            return Path(found)
    where = f"neither in {named} ({FOLDER}) nor on the PATH" if named else "not on the PATH"
    raise InputError(f"format gguf is written by llama.cpp's {SCRIPT}, which is {where}: clone "
                     f"https://github.com/ggml-org/llama.cpp, and set {FOLDER} to its folder")
