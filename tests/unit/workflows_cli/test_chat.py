"""`argosy chat`, `generate` and `probe` against transformers' own template, generation and forward pass."""

import io
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from argosy.core.errors import InputError
from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.report.probe import reliability
from tests.command_line import Argosy
from tests.plain_forward import nats
from tests.posttraining_fixtures import make_checkpoint
from workflows.cli.probe import parse_prob


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("sft"))


def expected(checkpoint: Path, text: str, tokens: int) -> str:
    """Greedy continuation by transformers."""
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


def probability(path: Path, prefix: str, text: str) -> float:
    """Probability of a text of tokens of its own, by the chain rule."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(path), AutoTokenizer.from_pretrained(path)
    before, whole = (tokenizer(each)["input_ids"] for each in (prefix, prefix + text))
    return math.exp(-float(nats(model, whole)[len(before) - 1 :].sum()))


def make_step(store: Path, stage: str, digest: str, source: str = "") -> Path:
    """A finished training step of a store, with a checkpoint half way and a final one."""
    directory = make_checkpoint(store / f"{stage}-{digest}", seed=len(source))
    shutil.copytree(directory / "checkpoints/final", directory / "checkpoints/p050")
    exports = [{"name": name, "path": f"checkpoints/{name}", "step": step} for step, name in
               enumerate(("p050", "final"))]  # fmt: skip
    made = {"node": stage, "part": "", "step": stage, "digest": digest, "upstream": {}, "external": {}, "config": {}}
    made |= {"upstream": {"checkpoint": [source]}} if source else {}
    done = {"outputs": {"exports": exports, "final": "checkpoints/final"}, "made_from": made}
    (directory / "outputs.json").write_text(json.dumps(done))
    return directory


def test_a_probability_for_each_checkpoint_of_a_line_with_a_page(tmp_path: Path, argosy: Argosy) -> None:
    store = tmp_path / "runs"
    make_step(store, "pretrain", "0123456789ab")
    directory = make_step(store, "anneal", "ba9876543210", "0123456789ab")
    asked = 'Prob(" dog" | "red blue")'
    page = tmp_path / "page.html"
    shown = argosy("probe", asked, str(directory), "--line", "--json", "--html", str(page), "--store", str(store))
    found = json.loads(shown.out)
    names = [each["checkpoint"] for each in found]
    assert names == ["pretrain/p050", "pretrain/final", "anneal/p050", "anneal/final"]
    last = found[-1]
    assert last["probabilities"][asked]["prob"] == pytest.approx(
        probability(directory / "checkpoints/final", "red blue", " dog"), rel=1e-4)  # fmt: skip
    assert "<svg" in page.read_text()
    assert "PROBABILITY" in argosy("probe", asked, str(directory), "--store", str(store)).out


def test_what_is_written_is_read() -> None:
    case = parse_prob("""Prob("北京", '"a\\n' | “中国的首都是”)""")
    assert (case.prefix, case.texts) == ("中国的首都是", ("北京", '"a\n'))
    for wrong, message in (("Prob(a | b)", "allowed"), ('Prob("" | "b")', "text is empty"), ('Prob("a")', "allowed")):
        with pytest.raises(InputError, match=message):
            parse_prob(wrong)


def test_a_reliability_diagram_has_each_bin_once() -> None:
    metrics = {"probe/s/n/ece": 0.1, "probe/s/n/040_050/confidence": 0.45, "probe/s/n/040_050/acc": 0.5,
               "probe/s/n/090_100/confidence": 0.95, "probe/s/n/090_100/acc": 0.7, "probe/s/n/confidence": 0.8}
    checkpoint = Checkpoint("d/final", "d", "sft", "final", 1, 1000, label="sft", metrics=metrics)
    chart, *others = reliability([checkpoint])
    assert not others
    assert [each.name for each in chart.series] == ["calibrated", "sft"]
    assert chart.series[1].points == [(45.0, 0.5), (95.0, 0.7)]
