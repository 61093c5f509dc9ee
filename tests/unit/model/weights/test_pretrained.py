"""Code that lies beside a model: nothing of it runs, whoever answers `y`; models of known types load without it."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.evaluation_fixtures import save_checkpoint

ROOT = Path(__file__).resolve().parents[4]
PACKAGES = ("argosy", "steps", "evals", "probes", "workflows", "benchmarks")
SUITE = "probes: [{name: river, kind: perplexity, texts: [the river]}]"
CODE = """from pathlib import Path
Path({marker!r}).write_text("it has run")
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
class OwnConfig(LlamaConfig):
    model_type = "own"
class OwnModel(LlamaForCausalLM):
    config_class = OwnConfig
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
        "tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["own.OwnTokenizer", "own.OwnTokenizer"]}},
    }.items():
        about = json.loads((path / name).read_text(encoding="utf-8")) | fields
        about |= {} if native or "model_type" not in about else {"model_type": "own"}
        (path / name).write_text(json.dumps(about))
    return path


@pytest.mark.parametrize("native", [True, False])
def test_code_beside_a_model_never_runs(tmp_path: Path, native: bool) -> None:
    marker = tmp_path / "marker"
    model = with_code(tmp_path / "model", marker, native=native)
    (tmp_path / "suite.yaml").write_text(SUITE)
    done = subprocess.run([sys.executable, "-c", DRIVER, str(model), str(tmp_path)], input="y\n" * 40, cwd=ROOT,
                          env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300)
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
