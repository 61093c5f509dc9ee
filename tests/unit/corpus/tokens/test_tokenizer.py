"""The tokenizer: transformers loads it, the chat template marks what is learnt."""

from pathlib import Path

import pytest

from argosy.core.errors import InputError
from argosy.corpus.data.schemas import Message, assistant, user
from argosy.corpus.tokens.encoder import Encoder
from argosy.corpus.tokens.markup import OWN, read_markup
from argosy.corpus.tokens.tokenizer import chat_pieces, load_tokenizer, save_tokenizer, train_tokenizer

CORPUS = ["The cat sat on the mat, and it's 1234 years old.", "法国的首都是巴黎，德国的首都是柏林。",
          "def f(x):\n    return x"] * 50  # fmt: skip
MESSAGES: list[Message] = [{"role": "system", "content": "Be brief."}, *user("Hi <|end|> there"), *assistant("你好"),
                           *user("More?"), *assistant("No.")]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(train_tokenizer(CORPUS, 400, split_han=True), path)
    return path


def test_long_documents_are_cut_without_changing_a_token(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = load_tokenizer(directory)
    text = "\n".join(f"line {number}  \n\n  indented 中文\r\n" for number in range(300)) + "\n" * 50
    whole = next(Encoder(tokenizer).encode([("x", OWN.document(text))], 1))
    monkeypatch.setattr("argosy.corpus.tokens.encoder.PIECE_CHARACTERS", 100)
    assert next(Encoder(tokenizer).encode([("x", OWN.document(text))], 1)) == whole


def test_digits_and_han_characters_are_single_tokens(directory: Path) -> None:
    tokenizer = load_tokenizer(directory)
    assert tokenizer.encode("1234", add_special_tokens=False).tokens == list("1234")
    for phrase in ("首都", "法国的首都是"):
        inside = tokenizer.encode(phrase, add_special_tokens=False).ids
        parts = [i for character in phrase for i in tokenizer.encode(character, add_special_tokens=False).ids]
        assert inside == parts


def test_han_words_become_tokens_when_asked_for() -> None:
    plain, split = (train_tokenizer(CORPUS, 400, split_han=flag) for flag in (False, True))
    assert len(plain.encode(CORPUS[1]).ids) < len(split.encode(CORPUS[1]).ids)


def test_missing_or_foreign_tokenizers_are_named(tmp_path: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    with pytest.raises(InputError, match=r"tokenizer\.json does not exist"):
        load_tokenizer(tmp_path)
    Tokenizer(BPE()).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "</s>"}')
    with pytest.raises(InputError, match=r"has no token for the end of a text: set eos_token"):
        read_markup(tmp_path, load_tokenizer(tmp_path))


def test_transformers_loads_it_and_renders_the_same(directory: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(directory)
    ours = load_tokenizer(directory)
    assert len(theirs) == ours.get_vocab_size()
    assert [theirs.bos_token, theirs.eos_token, theirs.pad_token] == ["<|bos|>", "<|eos|>", "<|pad|>"]
    assert theirs("Hi 中").input_ids == [theirs.bos_token_id, *ours.encode("Hi 中", add_special_tokens=False).ids]
    assert theirs.decode(theirs("It 's  a , b .").input_ids, skip_special_tokens=True) == "It 's  a , b ."
    rendered = theirs.apply_chat_template(MESSAGES, tokenize=False)
    assert rendered == "".join(piece for piece, _ in chat_pieces(MESSAGES))
    assert theirs.apply_chat_template(MESSAGES[:2], tokenize=False,
                                      add_generation_prompt=True).endswith("<|end|><|assistant|>")
    safe = [{**message, "content": message["content"].replace("<|end|>", "")} for message in MESSAGES]
    marked = theirs.apply_chat_template(safe, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
    assert marked["input_ids"] == next(Encoder(ours).encode([("c", OWN.conversation(safe))], 1))[:-1]
    learnt = [i for i, mask in zip(marked["input_ids"], marked["assistant_masks"], strict=True) if mask]
    assert theirs.decode(learnt) == " 你好<|end|> No.<|end|>"
