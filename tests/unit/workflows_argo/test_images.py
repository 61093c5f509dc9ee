"""The images' locks and Dockerfiles, without building them."""

import re
import tomllib

import pytest

from argosy.core.step.machine import _NEEDS, COMPILER
from argosy.corpus.cleaning.kernels import link_compiled
from tests.processes import ROOT, run_python
from workflows.argo.profile.settings import FORMS

IMAGES = ("data", "train", "mlflow")
TORCH = {"torch", "deepspeed", "transformers", "triton", "accelerate", "lm-eval"}
PEERS = {"datatrove", "trl"}  # of tests and benchmarks alone
LOCKED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", re.M)


def _lock(name: str) -> dict[str, str]:
    path = ROOT / "requirements.lock" if name == "all" else ROOT / "images" / f"{name}.lock"
    return dict(LOCKED.findall(path.read_text()))


def _bare(requirement: str) -> str:
    return re.split(r"[=<> ;]", requirement)[0]


def _dockerfile(name: str) -> str:
    return (ROOT / "images" / f"Dockerfile.{name}").read_text()


@pytest.mark.parametrize("file", ["requirements.lock", *sorted(path.name for path in ROOT.glob("images/*.lock"))])
def test_locks_have_hashes_and_no_addresses(file):
    text = (ROOT / ("" if file == "requirements.lock" else "images") / file).read_text()
    entries = re.split(r"\n(?=[a-z0-9])", text.strip())
    assert len(entries) == len(LOCKED.findall(text))
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in text
    assert not re.search(r"^\s*(--?(index|extra|find|trusted|i\b|f\b)|-e )", text, re.MULTILINE)


@pytest.mark.parametrize(("name", "others"), [
    ("train", {"pytest", "mypy", "ruff", *PEERS}), ("data", TORCH), ("mlflow", set()), ("tools", set())])
def test_locks_have_what_pyproject_asks_for_in_the_tests_versions_and_none_of_what_others_need(name, others):
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = {"image-train": pyproject["project"]["dependencies"], **pyproject["dependency-groups"]}
    everything, own = _lock("all"), _lock(name)
    assert {*map(_bare, groups[f"image-{name}"])} <= set(own)
    assert not others & set(own)
    if name == "train":  # what fields of its steps offer
        assert {*map(_bare, pyproject["project"]["optional-dependencies"]["gpu"]), "gguf", "onnxruntime"} <= set(own)
    assert name == "tools" or own.items() <= {**own, **everything}.items()


def test_forms_of_the_train_image_hold_what_its_locks_its_dockerfile_and_the_docs_say():
    things = {thing for _, _, each, _ in _NEEDS for thing in each}
    tools = re.search(r'^ARG TOOLS="(.*)"', _dockerfile("train"), re.M)[1].split()  # type: ignore[index]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = re.findall(r"--extra (\w+)", (ROOT / "docs/install.md").read_text().partition("uv pip compile")[2])
    without_cuda = {_bare(each): "" for extra in asked for each in extras[extra]}

    def held(packages, tools):
        installed = {COMPILER: "gcc" in tools, "libaio": "libaio-dev" in tools}
        return {each for each in things if each in packages or installed.get(each)}

    assert {"full": held(_lock("train"), tools), "slim": held(_lock("train-slim"), ()),
            "cpu": held(without_cuda, tools), "vllm": held(_lock("train") | _lock("vllm"), tools)} == FORMS


def test_what_the_data_image_runs_imports_without_torch():
    """The steps that need the data image, the pods' commands and what sends to MLflow, with torch out of reach."""
    script = f"""
import importlib, pkgutil, sys
for name in {sorted(each.replace("-", "_") for each in TORCH | {"hera", "datasets", "peft", "scipy"})!r}:
    sys.modules[name] = None  # an import of it raises
import steps, argosy.core.tracking, workflows.argo.pod
names = [f"steps.{{each.name}}" for each in pkgutil.iter_modules(steps.__path__)]
light = [name for name in names if importlib.import_module(name).STEP.needs == "data"]
assert {{"steps.data", "steps.clean", "steps.train_tokenizer", "steps.tokenize", "steps.compare"}} <= set(light), light
for package in (argosy.core.tracking, workflows.argo.pod):
    for each in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(each.name)
import argosy.evidence.report.report, argosy.corpus.tokens.tokenizer, argosy.corpus.tokens.shards, mlflow.models.utils
"""
    ended = run_python("-c", script)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("name", IMAGES)
def test_dockerfiles_run_as_uid_1000_from_a_base_that_can_be_pinned(name):
    text = _dockerfile(name)
    assert "ARG BASE=docker.io/library/python:3.11-slim-bookworm\n" in text
    assert re.findall(r"^FROM (\S+)", text, re.M) == ["${BASE}"] * 2
    assert re.findall(r"^USER (\S+)", text, re.M) == ["1000:1000"]
    assert "--require-hashes" in text
    assert "--compile-bytecode" in text
    for label in ("version", "revision"):
        assert f"org.opencontainers.image.{label}=" in text


@pytest.mark.parametrize("name", [*IMAGES, "vllm"])
def test_what_dockerfiles_copy_is_there_and_not_ignored(name):
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(\S+) ", _dockerfile(name).replace("${LOCK}", "images/train.lock"), re.M)
    assert copied
    for source in copied:
        assert (ROOT / source).exists()
        assert source in allowed or re.sub(r"/[^/]+\.lock$", "/*.lock", source) in allowed


def test_compiled_loops_are_offered_where_numba_may_write_beside_them(tmp_path):
    image, cache = tmp_path / "image", tmp_path / "cache"
    (image / "quality").mkdir(parents=True)
    (image / "quality/lines.nbi").write_text("index")
    (image / "quality").chmod(0o555)
    link_compiled(str(image), str(cache))
    link_compiled(str(image), str(cache))  # by another process
    assert (cache / "quality/lines.nbi").read_text() == "index"
    assert (cache / "quality").stat().st_mode & 0o200
    assert sorted(tmp_path.iterdir()) == [cache, image]
    link_compiled(str(image), str(image / "quality/lines.nbi/nowhere"))  # cannot be made: numba does without
