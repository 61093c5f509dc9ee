"""`argosy chat` and `argosy generate` against transformers' own template and generation."""

import io
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Argosy
from tests.posttraining_fixtures import make_checkpoint


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("sft"))


def expected(checkpoint: Path, text: str, tokens: int) -> str:
    """Greedy continuation by transformers."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path = checkpoint / "checkpoints/final"
    model, tokenizer = AutoModelForCausalLM.from_pretrained(path), AutoTokenizer.from_pretrained(path)
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=False)
    ends = [tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<|end|>")]
    made = model.generate(**ids, max_new_tokens=tokens, do_sample=False, eos_token_id=ends)[0]
    return str(tokenizer.decode(made[ids.input_ids.shape[1] :], skip_special_tokens=True))


def test_a_conversation_is_rendered_whole_and_loses_its_first_turns_alone(checkpoint: Path, argosy: Argosy,
                                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    long = "word " * 40
    turns = ["say cat twice", "and dog", "/new", "say sun", f"{long}please", long * 9, "/quit", "not read"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(turns)))
    shown = argosy("chat", str(checkpoint), "--temperature", "0", "--max-tokens", "6")
    first = expected(checkpoint, "<|user|>say cat twice<|end|><|assistant|>", 6)
    second = expected(checkpoint, f"<|user|>say cat twice<|end|><|assistant|>{first}<|end|><|user|>and dog<|end|>"
                                  "<|assistant|>", 6)
    third = expected(checkpoint, "<|user|>say sun<|end|><|assistant|>", 6)
    assert shown.out.startswith(f"{first}\n{second}\n{third}\n")
    assert "no stage up to anneal has trained it on conversations" in shown.err
    assert "(a new conversation)" in shown.err
    assert "the model's context 96: shorten it" in shown.err


def test_prompts_are_continued_greedily_or_drawn_by_their_seed(checkpoint: Path, argosy: Argosy) -> None:
    def said(*options: str) -> str:
        return argosy("generate", str(checkpoint), *options, "--max-tokens", "8").out

    assert said("red blue") == expected(checkpoint, "red blue", 8) + "\n"
    drawn: list[Any] = [said("red blue", "--temperature", "1", "--seed", seed) for seed in "112"]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_checkpoint_that_cannot_speak_is_refused(tmp_path: Path, argosy: Argosy) -> None:
    (make_checkpoint(tmp_path) / "checkpoints/final/chat_template.jinja").unlink()
    for arguments, message in ((["chat", str(tmp_path)], "has no chat template: 'argosy generate"),
                               (["generate", "./nowhere", "x"], "'./nowhere': there is no such directory")):
        assert message in argosy(*arguments, code=2).err
