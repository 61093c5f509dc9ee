"""The start step: what it leaves, for a directory, a checkpoint of ours and a name of the hub."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import Mock

import pytest

from argosy.core.errors import InputError, StepError
from argosy.model.weights.checkpoint import open_final
from argosy.model.weights.elsewhere.hub import download
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
    outputs = run(tmp_path / "out", model=str(make_checkpoint(tmp_path / "base")))
    assert outputs["exports"][0]["tokens"] == 1000


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


def test_what_the_hub_refuses_is_the_users_to_correct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub
    from huggingface_hub.errors import RepositoryNotFoundError

    def refuse(*_: Any, **__: Any) -> str:
        raise RepositoryNotFoundError("404: no such model.\nmore", response=Mock(status_code=404))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(InputError, match=r"which the hub does not give: 404: no such model; correct the name"):
        run(tmp_path / "out", model=NAME)


def test_without_a_model_it_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"start\.model is empty"):
        run(tmp_path / "out")
    with pytest.raises(InputError, match=r"has neither outputs\.json .* nor config\.json"):
        run(tmp_path / "out", model=str(tmp_path))


class _Hub(BaseHTTPRequestHandler):
    """A hub that has one model of one file, and notes what it is asked."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        listing = json.dumps([{"type": "file", "path": "config.json", "size": 2, "oid": "a" * 40}])
        self.answer(listing.encode() if "/api/" in self.path else b"{}")

    def do_HEAD(self) -> None:
        self.answer(b"{}")

    def answer(self, data: bytes) -> None:
        self.send_response(200)
        for name, value in (("Content-Type", "application/json"), ("ETag", f'"{"a" * 40}"'),
                            ("X-Repo-Commit", COMMIT), ("Content-Length", str(len(data)))):
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_model_of_the_hub_is_downloaded_at_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub
    from huggingface_hub import constants

    with ThreadingHTTPServer(("127.0.0.1", 0), _Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here = f"http://127.0.0.1:{server.server_port}"
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, here)
        for name, value in (("ENDPOINT", here), ("HUGGINGFACE_CO_URL_TEMPLATE", template), ("HF_HUB_OFFLINE", False),
                            ("HF_HUB_CACHE", str(tmp_path))):
            monkeypatch.setattr(constants, name, value)
        directory = download(NAME)
        server.shutdown()
    assert (directory / "config.json").read_text() == "{}"
    models = [path for path in _Hub.asked if "org/tiny" in path]
    assert models
    assert all(COMMIT in path for path in models)

    def break_off(*_: object, **__: object) -> None:
        raise RuntimeError("peer closed connection")  # of the HTTP client, which is no OSError

    monkeypatch.setattr(huggingface_hub, "snapshot_download", break_off)
    with pytest.raises(StepError, match="cannot be downloaded: peer closed connection; copy the model to a directory"):
        download(NAME)
