"""A real model begins, continues texts and answers as transformers itself has it."""

import io
from pathlib import Path

import pytest

from argosy.model.weights.load import load_model
from tests.command_line import Argosy
from tests.real_model.reference import Reference, logits

pytestmark = pytest.mark.real_model
TEXT = ("The Nile is a river in Africa that flows north into the Mediterranean Sea. For thousands of years people have "
        "lived along its banks, because its floods left rich soil in which wheat and barley grow well.")
BEGINNINGS = ("The capital of France is", "Water boils at", "Once upon a time,")


def test_a_start_computes_what_transformers_computes(started: Path, theirs: Reference) -> None:
    ids = theirs.ids(TEXT)
    wanted, found = theirs.logits(ids), logits(load_model(started / "checkpoints/final").eval(), ids)
    assert (found - wanted).abs().max() < 1e-3
    nats = -wanted[:-1].log_softmax(-1)[range(len(ids) - 1), ids[1:]]
    assert nats.mean() < 4  # it knows English: a guess has 10.8 nats a token


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of both commands, in which the weights of a GGUF file are dequantized once."""
    return tmp_path_factory.mktemp("runs")


def said_by(argosy: Argosy, store: Path, *command: str) -> str:
    """What a command says of the model, without what the first one says of a GGUF file."""
    lines = argosy(*command, "--store", str(store)).out.splitlines(keepends=True)
    return "".join(line for line in lines if str(store) not in line)


def test_texts_are_continued_as_transformers_continues_them(real: Path, store: Path, theirs: Reference,
                                                            argosy: Argosy) -> None:
    said = said_by(argosy, store, "generate", str(real), *BEGINNINGS, "--max-tokens", "24")
    wanted = [theirs.greedy(text, 24) for text in BEGINNINGS]
    assert said == "".join(f"> {text}\n{made}\n" for text, made in zip(BEGINNINGS, wanted, strict=True))
    assert "Paris" in wanted[0]


def test_a_turn_is_answered_in_the_models_own_template(real: Path, store: Path, theirs: Reference, argosy: Argosy,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "What is the capital of Italy? Answer in one sentence."
    monkeypatch.setattr("sys.stdin", io.StringIO(asked + "\n"))
    said = said_by(argosy, store, "chat", str(real), "--temperature", "0", "--max-tokens", "32")
    assert said == theirs.greedy(theirs.turn(asked), 32) + "\n"
    assert "Rome" in said
