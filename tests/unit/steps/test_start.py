"""The start step: what it leaves, for a directory, a checkpoint of ours and a name of the hub."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from argosy.core.errors import InputError, StepError
from argosy.model.weights.checkpoint import open_final
from argosy.model.weights.load import load_model
from steps import start
from tests.posttraining_fixtures import make_checkpoint
from tests.started_models import make_model, make_qwen_tokenizer
from tests.step_fixtures import run_step

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = f"org/tiny@{COMMIT}"


def run(out: Path, **config: Any) -> dict[str, Any]:
    return run_step(start.STEP, start.StartConfig(**config), out)


def test_it_leaves_what_a_training_step_leaves(tmp_path: Path) -> None:
    path = make_model(tmp_path / "model", "qwen3", make_qwen_tokenizer(template=""), rows=448)
    outputs = run(tmp_path / "out", model=str(path), chat=True)
    (tmp_path / "out" / "outputs.json").write_text(json.dumps({"outputs": outputs}))
    found = open_final("checkpoint", str(tmp_path / "out"))
    assert (found.stage, found.tokens, found.chat) == ("start", 0, True)
    assert load_model(found.path).config.vocab_size == outputs["rows"] == outputs["rows_before"] == 448
    assert list(outputs["added"]) == ["<|user|>", "<|assistant|>", "<|end|>"]
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (tmp_path / "out/tokenizer" / name).read_bytes() == (found.path / name).read_bytes()
    for file in (tmp_path / "out").rglob("*"):
        assert not file.is_file() or file.parent.name == "tracking" or str(tmp_path).encode() not in file.read_bytes()
    first = (found.path / "model.safetensors").read_bytes()
    assert run(tmp_path / "out", model=str(path), chat=True) == outputs  # as after a kill
    assert (found.path / "model.safetensors").read_bytes() == first


def test_a_checkpoint_of_ours_keeps_its_tokens(tmp_path: Path) -> None:
    assert run(tmp_path / "out", model=str(make_checkpoint(tmp_path / "base")))["exports"][0]["tokens"] == 1000


def test_a_name_of_the_hub_is_taken_from_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    name, _, commit = NAME.partition("@")
    cached = tmp_path / "hub" / f"models--{name.replace('/', '--')}" / "snapshots" / commit
    make_model(cached, "llama", make_qwen_tokenizer())
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert run(tmp_path / "out", model=NAME)["model_type"] == "llama"
    with pytest.raises(StepError, match=r"org/other@0123.* cannot be downloaded: .*; copy the model to a directory"):
        run(tmp_path / "other", model=NAME.replace("tiny", "other"))


def refusal() -> Exception:
    from huggingface_hub.errors import RepositoryNotFoundError

    return RepositoryNotFoundError("404: no such model.\nmore", response=Mock(status_code=404))


@pytest.mark.parametrize(("error", "kind", "message"), [
    (refusal, InputError, "which the hub does not give: 404: no such model; correct the name"),
    (lambda: RuntimeError("peer closed connection"), StepError,  # of the HTTP client, which is no OSError
     "cannot be downloaded: peer closed connection; copy the model to a directory")])
def test_a_name_of_the_hub_is_asked_at_its_commit_and_what_fails_is_said(
    error: Callable[[], Exception], kind: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    asked = Mock(side_effect=error())
    monkeypatch.setattr(huggingface_hub, "snapshot_download", asked)
    with pytest.raises(kind, match=message):
        run(tmp_path / "out", model=NAME)
    assert (asked.call_args.args, asked.call_args.kwargs["revision"]) == (("org/tiny",), COMMIT)
