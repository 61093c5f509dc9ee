"""The tokenize step: what is on disk is the text, split by document ids, whole or absent."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from argosy.core.errors import InputError, StepError
from argosy.core.store.files import read_json, write_json
from argosy.core.tracking.spool import read
from argosy.corpus.data.jsonl import JsonlWriters, read_jsonl
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.split import heldout_ids
from argosy.corpus.demo.corpus import DemoConfig
from argosy.corpus.tokens.encoder import Encoder
from argosy.corpus.tokens.markup import OWN
from argosy.corpus.tokens.reader import read_channels, read_special
from argosy.corpus.tokens.shards import TokensWriter
from argosy.corpus.tokens.tokenizer import SPECIAL_TOKENS, load_tokenizer, save_tokenizer, train_tokenizer
from argosy.evidence.results.heldout.losses import Heldout, run_heldout
from steps import data, tokenize
from steps import train_tokenizer as tokenizer_step
from steps.data import DataConfig
from tests.cleaning_fixtures import cleaned, make_data
from tests.plain_forward import language_model
from tests.step_fixtures import run_step

WEB = {f"web-{n}": f"Document {n}: the sea is {n * 7} metres deep.\n中文{n}。" for n in range(60)}
NONE = {"nothing": "."}
ODD = dict(enumerate((
    "<|eos|>", "\u200b\ufffd\x00", "x\n" * 20_000, " ", "\n\n\n", "<|bos|><|end|>", "é̂ ﷽ 👩‍👩‍👧 𠮷", "١٢٣ 12,345.67",
    "a" * 5000, "\u2028\r\n\t x")))  # fmt: skip
CHAT = [{"role": "user", "content": "深さ?"}, {"role": "assistant", "content": "7 metres"}]
ASKED = [{"role": "user", "content": "How deep?"}, {"role": "assistant", "content": "8 metres"}]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that is a train_tokenizer's and a data step's at once, with a corpus of two shards below it."""
    root: Path = tmp_path_factory.mktemp("inputs")
    documents = [Document(str(name), text, channel) for channel, texts in (("web", WEB), ("odd", ODD), ("empty", NONE))
                 for name, text in texts.items()]
    short = {"name": "gopher_quality", "skip_channels": ("web", "odd")}
    cleaned(root, make_data(root, documents), shards=2, filters=[short])
    with JsonlWriters(root) as writers:
        wrong = {"messages": [ASKED[0], ASKED[1] | {"train": False}, *CHAT]}  # no text for pretraining
        writers.write_all("instructions", [{"messages": CHAT}] * 30 + [wrong])
        writers.write_all("instructions_heldout", [{"messages": ASKED}] * 3)
    save_tokenizer(train_tokenizer([*WEB.values()] * 3, 400, split_han=True), root / "tokenizer")
    return root


def run(inputs: Path, out: Path, **config: Any) -> dict[str, Any]:
    corpus = {"documents": str(inputs / "clean"), "scored": [str(inputs / f"score-{n}") for n in range(2)]}
    wired = corpus | dict.fromkeys(("tokenizer", "data"), str(inputs)) | config
    return run_step(tokenize.STEP, tokenize.TokenizeConfig(**wired), out)


def decoded(out: Path, inputs: Path, channel: str) -> dict[str, list[str]]:
    tokenizer = load_tokenizer(inputs / "tokenizer")
    found: dict[str, list[str]] = {}
    for split in ("train", "heldout"):
        opened = read_channels(out, split).get(channel)  # type: ignore[arg-type]
        spans = [] if opened is None else zip(opened.offsets[:-1], opened.offsets[1:], strict=True)
        ids = [[int(i) for i in opened.tokens[a:b]] for a, b in spans]  # type: ignore[union-attr]
        found[split] = [tokenizer.decode(each, skip_special_tokens=False) for each in ids]
    return found


def test_what_is_written_decodes_to_the_texts(inputs: Path, tmp_path: Path) -> None:
    run(inputs, tmp_path, heldout_share=0.2)
    for channel, texts in (("web", WEB), ("odd", ODD)):
        splits = decoded(tmp_path, inputs, channel)
        expected = sorted(f"<|bos|>{text}<|eos|>" for text in texts.values())
        assert sorted([*splits["train"], *splits["heldout"]]) == expected
    chats = decoded(tmp_path, inputs, "instructions")
    assert chats["train"] == ["<|bos|><|user|>深さ?<|end|><|assistant|> 7 metres<|end|><|eos|>"] * 30
    assert chats["heldout"] == ["<|bos|><|user|>How deep?<|end|><|assistant|> 8 metres<|end|><|eos|>"] * 3


def test_no_heldout_conversation_is_one_that_sft_learns(inputs: Path, tmp_path: Path) -> None:
    made = DataConfig(demo=DemoConfig(english_bytes=20_000, code_bytes=0, instructions=100), heldout_share=0.3)
    run_step(data.STEP, made, tmp_path / "data")
    run(inputs, tmp_path / "out", data=str(tmp_path / "data"))
    chats = decoded(tmp_path / "out", inputs, "instructions")
    seen = {"".join(piece for piece, _ in OWN.conversation(record["messages"]))
            for file in ("instructions", "twin") for record in read_jsonl(tmp_path / f"data/{file}.jsonl")}
    assert len(chats["heldout"]) >= 30
    assert not seen & set(chats["heldout"])
    assert set(chats["train"]) < seen


def test_index_says_what_the_files_hold(inputs: Path, tmp_path: Path) -> None:
    outputs = run(inputs, tmp_path)
    index = read_json(tmp_path / "index.json")
    assert (index["channels"], index["dtype"]) == (outputs["channels"], "uint16")
    special = load_tokenizer(inputs / "tokenizer").token_to_id
    assert read_special(tmp_path) == {special(token) for token in SPECIAL_TOKENS}
    web = index["channels"]["web"]
    assert web["train"]["bytes"] + web["heldout"]["bytes"] == sum(len(text.encode()) for text in WEB.values())
    assert web["heldout"]["documents"] == 8
    nothing = {"tokens": 0, "documents": 0, "bytes": 0}
    assert index["channels"]["empty"] == {"train": nothing, "heldout": nothing}
    chat = index["channels"]["instructions"]
    assert chat["train"]["bytes"] == chat["train"]["documents"] * len("深さ? 7 metres".encode())
    told = read_json(tmp_path / "report.json")
    size, tokens = (sum(web[split][key] for split in web) for key in ("bytes", "tokens"))
    assert told["channels"]["web"] == {"documents": 60, "bytes": size, "tokens": tokens,
                                       "bytes_per_token": size / tokens}
    assert told["decoded"] == {"changed": 0, "checked": 3}  # of 103 texts
    assert read(tmp_path)["tokens/bytes_per_token/web"] == [(0, size / tokens)]
    assert (tmp_path / "train/web.bin").stat().st_size == 2 * web["train"]["tokens"]


def test_more_documents_move_none_to_the_other_side() -> None:
    ids = [f"d{number}" for number in range(3000)]
    few, many = heldout_ids(ids[:1500], 0.1, 0), heldout_ids(ids, 0.1, 0)
    assert few == many & set(ids[:1500])
    assert 230 < len(many) < 370
    assert len(heldout_ids(ids[:20], 0.0, 4)) == 4
    assert len(heldout_ids(ids[:5], 0.0, 4)) == 2
    assert heldout_ids(ids[:1], 0.0, 4) == frozenset()
    assert heldout_ids([], 0.5, 4) == frozenset()


def test_a_crash_leaves_nothing_and_batch_size_changes_nothing(inputs: Path, tmp_path: Path,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: object) -> None:
        raise StepError("not byte-level")

    monkeypatch.setattr(Encoder, "_check", fails)
    with pytest.raises(StepError):
        run(inputs, tmp_path / "a")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    monkeypatch.undo()
    for name, batch in (("a", 1), ("b", 10**9)):
        run(inputs, tmp_path / name, batch_characters=batch)
    files = [{p.relative_to(tmp_path / name): p.read_bytes() for p in (tmp_path / name).rglob("*.*")
              if p.name != "spool.jsonl"} for name in "ab"]
    assert files[0] == files[1]


def test_wide_vocabularies_have_wide_ids(tmp_path: Path) -> None:
    with TokensWriter(tmp_path, 100_000) as writer:
        writer.open("web")
        writer.add("web", "train", [99_999, 1], 7)
    assert read_channels(tmp_path, "train")["web"].tokens.tolist() == [99_999, 1]


def test_another_tokenizer_of_the_same_size_is_refused(inputs: Path, tmp_path: Path) -> None:
    """Its ids stand for other text: bits a byte, and what a model has memorised, would be of nonsense."""
    run(inputs, tmp_path / "tokens")
    own = AutoTokenizer.from_pretrained(inputs / "tokenizer")
    own.save_pretrained(tmp_path / "again")  # as a training step exports it
    own = AutoTokenizer.from_pretrained(tmp_path / "again")
    texts = [text.replace("sea", "rhinoceros") for text in WEB.values()]
    save_tokenizer(train_tokenizer(texts * 3, len(own), split_han=True), tmp_path / "tokenizer")
    other = AutoTokenizer.from_pretrained(tmp_path / "tokenizer")
    assert len(other) == len(own)
    # the same tokens with the same ids, of a text that is changed before
    lower = tmp_path / "lower"
    save_tokenizer(load_tokenizer(inputs / "tokenizer"), lower)
    layout = read_json(lower / "tokenizer.json") | {"normalizer": {"type": "Lowercase"}}
    write_json(lower / "tokenizer.json", layout)
    assert run_heldout(Heldout(), language_model(own), str(tmp_path / "tokens"), suite="s").metrics
    for wrong in (other, AutoTokenizer.from_pretrained(lower)):
        with pytest.raises(InputError, match=f"another tokenizer than the checkpoint's, also of {len(own)} tok"):
            run_heldout(Heldout(), language_model(wrong), str(tmp_path / "tokens"), suite="s")


def test_shards_that_were_not_gathered_are_refused(inputs: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"scored names 1 directories, and .* has gathered 2"):
        run(inputs, tmp_path / "out", scored=[str(inputs / "score-0")])


def test_tokenizer_step_balances_channels_and_reports(tmp_path: Path) -> None:
    documents = [Document(f"{channel}-{number}", f"{channel} text number {number} of many", channel)
                 for channel, count in (("small", 20), ("large", 2000)) for number in range(count)]
    cleaned(tmp_path, make_data(tmp_path / "data", documents), filters=[])
    config = tokenizer_step.TrainTokenizerConfig(documents=str(tmp_path / "clean"), vocab_size=320, channel_bytes=5000,
                                                 scored=[str(tmp_path / "score-0")])
    outputs = run_step(tokenizer_step.STEP, config, tmp_path)
    assert outputs["sample_bytes"]["small"] == sum(len(f"small text number {n} of many") for n in range(20))
    assert 3500 < outputs["sample_bytes"]["large"] < 6500
    assert set(outputs["bytes_per_token"]) == {"small", "large"}
    assert min(outputs["bytes_per_token"].values()) > 2
