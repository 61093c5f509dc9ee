"""Held-out loss of raw and tokenized text, by stride and by position, against plain forward passes."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from argosy.core.errors import InputError
from argosy.corpus.tokens.reader import read_channels
from argosy.evidence.compare.changes import compare
from argosy.evidence.compare.checkpoints import Checkpoint, Checkpoints
from argosy.evidence.compare.sentences import stage_sentences
from argosy.evidence.results.heldout.documents import UNKNOWN
from argosy.evidence.results.heldout.losses import Heldout, run_heldout
from argosy.evidence.results.suite import find_suite, load_suite, named_files
from argosy.model.infer.model import LanguageModel
from argosy.model.train.heldout import HeldoutLoss
from argosy.model.train.layers.loss import LossModule
from tests.plain_forward import bare, distributions, language_model, model_of
from tests.step_fixtures import write_lines
from tests.tokenizer_kinds import TEXTS, UNSEEN, make_lossy
from tests.training_fixtures import write_tokens
from tests.trees import write_files

KINDS = ("bytes", "byte_bpe", "sentencepiece")
LENGTH = 64
ZH = ["水由氢和氧组成。" * 9, UNSEEN, "第三章\n\n  这条河发源于山区。", *TEXTS[2:]]
EN = [*TEXTS[:2], " begins with a space", "two  spaces, a\ttab and \"<|end|>\" or </s> as text", "x" * 150, "é①ﬁ"]


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, str]:
    """JSONL for one channel, a folder of text files for the other."""
    path = write_lines(tmp_path / "zh.jsonl", [{"text": text} for text in ZH])
    folder = write_files(tmp_path / "en", {f"{number}.txt": text for number, text in enumerate(EN)})
    return {"zh": str(path), "en": str(folder)}


def plain_nats(model: LanguageModel, text: str, stride: int = LENGTH) -> float:
    """Nats of a text, a window at a time: `stride` new tokens in a model's length, the first one after BOS."""
    tokens = [model.prefix_token, *model.tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids]
    scored, nats = 1, 0.0
    while scored < len(tokens):
        end = min(len(tokens), scored + (LENGTH if scored == 1 else stride))
        begin = max(0, end - 1 - LENGTH)
        logs = distributions(model, tokens[begin : end - 1])
        nats -= float(sum(logs[at - 1 - begin, tokens[at]] for at in range(scored, end)))
        scored = end
    return nats


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stride", [None, 16])
def test_bits_a_byte_of_raw_text(kind: str, stride: int | None, texts: dict[str, str]) -> None:
    model = model_of(kind, LENGTH)
    found = run_heldout(Heldout(texts=texts, stride=stride), model, "", suite="s").metrics
    for channel, own in (("zh", ZH), ("en", [text.strip() for text in EN])):
        nats = sum(plain_nats(model, text, stride or LENGTH) for text in own)
        size = sum(len(text.encode()) for text in own)
        assert found[f"heldout/bpb/{channel}"] == pytest.approx(nats / math.log(2) / size, abs=1e-6)
        encoded = [model.tokenizer(t, add_special_tokens=False, split_special_tokens=True).input_ids for t in own]
        tokens = sum(map(len, encoded))
        assert found[f"heldout/nats/{channel}"] == pytest.approx(nats / tokens, abs=1e-6)
        assert found[f"heldout/ppl/{channel}"] == pytest.approx(math.exp(nats / tokens), rel=1e-5)
    assert not any("changed" in name for name in found)  # nothing is lost, whatever the characters


def test_general_text_that_costs_too_much_is_flagged_and_said(texts: dict[str, str]) -> None:
    model = model_of(KINDS[0], LENGTH)
    nats = run_heldout(Heldout(texts=texts), model, "", suite="s").metrics["heldout/nats/en"]
    section = Heldout(texts=texts, most_nats={"en": nats - 0.1, "zh": 100.0, "absent": 2.0})
    found = run_heldout(section, model, "", suite="s")
    assert found.warnings == {"heldout/en": f"costs {nats:.2f} nats a token, more than {nats - 0.1:g}"}
    c = Checkpoint("k", "k", "sft", "final", 1, 1, label="sft", metrics=found.metrics, warnings=found.warnings)
    said = [each.text for each in stage_sentences(compare(Checkpoints([c])))]
    assert f"Held-out text of sft: en {found.warnings['heldout/en']}." in said


def test_the_shipped_general_text_is_flagged() -> None:
    section = load_suite(str(find_suite("general"))).section("heldout", Heldout).model_copy(
        update={"texts": str(find_suite("general").with_suffix(".jsonl")), "bytes_per_channel": 600})
    found = run_heldout(section, model_of(KINDS[0], LENGTH), "", suite="general")
    assert {*found.warnings} == {"heldout/encyclopaedia_en", "heldout/encyclopaedia_zh"}


def test_raw_text_is_what_the_tokenize_step_has(texts: dict[str, str], tmp_path: Path) -> None:
    model = model_of("byte_bpe", LENGTH)
    tokens = write_tokens(tmp_path / "tokens", model.tokenizer, {"heldout": {"zh": ZH}})
    a = run_heldout(Heldout(tokens_per_channel=10_000), model, str(tokens), suite="heldout")
    b = run_heldout(Heldout(texts={"zh": texts["zh"]}), model, "", suite="heldout")
    assert (a.metrics, a.stderr) == (pytest.approx(b.metrics, abs=1e-9), pytest.approx(b.stderr, abs=1e-9))
    nats = [plain_nats(model, text) for text in ZH]
    size = [len(text.encode()) for text in ZH]
    residuals = np.array(nats) - sum(nats) / sum(size) * np.array(size)
    error = residuals.std(ddof=1) / len(ZH) ** 0.5 / np.mean(size) / math.log(2)
    assert a.stderr["heldout/bpb/zh"] == pytest.approx(error, rel=1e-5)


def test_a_tokenizer_that_changes_the_text_is_told(tmp_path: Path) -> None:
    model = language_model(make_lossy(), LENGTH)
    lines = ["首都是巴黎", "首都是①", "首都是鱻"]
    (tmp_path / "zh.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in lines) + "{\n")
    found = run_heldout(Heldout(texts={"zh": str(tmp_path / "zh.jsonl")}), model, "", suite="s")
    assert found.left_out == {"heldout/zh": {UNKNOWN: 1, "invalid JSON": 1}}
    assert found.metrics["heldout/changed/zh"] == 0.5  # "①" became "1"
    assert len(found.rows) == 2


def test_loss_by_position_and_what_context_is_worth(tmp_path: Path) -> None:

    model = model_of("byte_bpe", LENGTH)
    documents = [TEXTS[n % 4] * (n + 1) for n in range(5)]
    tokens = write_tokens(tmp_path, model.tokenizer, {"heldout": {"mixed": documents, "short": ["a"]}})
    section = Heldout(tokens_per_channel=10**6, positions={"length": 32, "short": 8})
    found = run_heldout(section, model, str(tokens), suite="s")
    training = HeldoutLoss(read_channels(tokens, "heldout"), 32, 10**6).by_position(
        LossModule(model.model, 1, torch.float32, 0.0, 32))
    assert training.keys() == {"0_4", "4_8", "8_16", "16_32"}
    for name, value in training.items():
        assert found.metrics[f"heldout/nats_at/mixed/{name}"] == pytest.approx(value, rel=1e-5)
    gains: list[list[float]] = []
    for document in documents:
        ids = [model.prefix_token, *bare(model, document)]
        gains.append([])
        for start in range(1, len(ids) - 31, 32):
            piece = ids[start - 1 : start + 32]  # a token, then the 32 that are scored
            full = distributions(model, piece[:-1])
            for at in range(17, 33, 8):
                near = distributions(model, piece[at - 8 : at + 7])
                for n in range(8):
                    gains[-1].append(float(full[at + n - 1, piece[at + n]] - near[7 + n, piece[at + n]]))
    every = [gain for own in gains for gain in own]
    assert found.metrics["heldout/context_gain/mixed"] == pytest.approx(sum(every) / len(every), rel=1e-4)
    used = [own for own in gains if own]
    spread = np.array([sum(own) - len(own) * sum(every) / len(every) for own in used])
    error = spread.std(ddof=1) / len(used) ** 0.5 / (len(every) / len(used))
    assert found.stderr["heldout/context_gain/mixed"] == pytest.approx(error, rel=1e-3)  # clustered by document
    assert found.left_out == {"heldout/nats_at/short": {"channel without a document of 32 tokens": 1}}
    curve = [row for row in found.rows if row["variant"] == "nats_at/mixed"]
    assert [(row["from"], row["to"]) for row in curve] == [(0, 4), (4, 8), (8, 16), (16, 32)]
    assert [row["loss"] for row in curve] == pytest.approx(list(training.values()), rel=1e-4)
    assert not any("nats" in row for row in curve)  # such a row is a document to those that compare


def test_texts_beside_a_suite_count_as_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "held").mkdir()
    (tmp_path / "held/en.txt").write_text("A river.")
    suite = tmp_path / "mine.yaml"
    suite.write_text("heldout: {texts: {en: held, zh: elsewhere/zh.jsonl}}")
    section = load_suite(str(suite)).section("heldout", Heldout)
    assert section.texts == {"en": str(tmp_path / "held"), "zh": "elsewhere/zh.jsonl"}
    assert named_files(str(suite)) == [str(tmp_path / "held")]
    found = run_heldout(section, model_of("bytes", LENGTH), "", suite="s", data=str(tmp_path / "data"))
    assert "elsewhere/zh.jsonl (heldout.texts.zh) does not exist: looked at zh.jsonl" in found.failed["heldout/zh"]
    assert "heldout/bpb/en" in found.metrics
    with pytest.raises(InputError, match=r"elsewhere/zh\.jsonl \(heldout\.texts\.zh\) does not exist"):
        run_heldout(Heldout(texts={"zh": "elsewhere/zh.jsonl"}), model_of("bytes", LENGTH), "", suite="s")
    monkeypatch.setenv("ARGOSY_BENCHMARKS", str(tmp_path / "root"))
    write_files(tmp_path / "root", {"elsewhere/zh.jsonl": '{"text": "河"}\n'})
    assert named_files(str(suite))[1:] == [str(tmp_path / "root/elsewhere/zh.jsonl")]
    assert "heldout/bpb/zh" in run_heldout(section, model_of("bytes", LENGTH), "", suite="s").metrics


@pytest.mark.parametrize(("section", "message"), [
    ({}, "give `tokens`"),
    ({"stride": 65, "texts": "T"}, r"heldout\.stride is 65, allowed for this model: 1 to 64"),
    ({"positions": {"length": 128}, "texts": "T"}, r"positions\.length is 128, allowed for this model: up to 64"),
    ({"memorisation": {}, "texts": "T"}, "memorisation compares with training text: give `tokens`"),
    ({"texts": "/nowhere.jsonl"}, r"/nowhere\.jsonl \(heldout\.texts\) does not exist")])
def test_what_a_model_cannot_do_is_named(section: dict[str, object], message: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("A river.")
    given = {key: str(tmp_path / "a.txt") if value == "T" else value for key, value in section.items()}
    with pytest.raises(InputError, match=message):
        run_heldout(Heldout.model_validate(given), model_of("bytes", LENGTH), "", suite="s")
