"""The text of a stream: whole characters, nothing after a stop text, and together what the whole is decoded to."""

from random import Random

import pytest

from argosy.model.infer.decode import before_stops
from argosy.model.serve.text import Text
from tests.evaluation_fixtures import make_tokenizer
from tests.tokenizer_kinds import tokenizers_by_kind

WHOLE = "The river Nile, 长江 and salt; 🌍 é ends\n\nhere. 北京是中国的首都。"


def streamed(tokenizer: object, ids: list[int], stops: list[str]) -> tuple[list[str], bool]:
    text = Text(lambda each: tokenizer.decode(each, skip_special_tokens=True), stops)  # type: ignore[attr-defined]
    parts: list[str] = []
    for token in ids:
        parts.append(text.add(token))
        if text.stopped:
            return parts, True
    return [*parts, text.end()], False


@pytest.mark.parametrize("kind", ["bytes", "byte_bpe", "sentencepiece"])
def test_pieces_are_whole_characters_and_make_the_text(kind: str) -> None:
    tokenizer = tokenizers_by_kind()[kind]
    ids = tokenizer(WHOLE, add_special_tokens=False)["input_ids"]
    parts, _ = streamed(tokenizer, ids, [])
    assert "".join(parts) == tokenizer.decode(ids, skip_special_tokens=True)
    assert not any("�" in part for part in parts)
    assert sum(map(bool, parts)) > len(WHOLE) / 10  # it comes in pieces


def test_nothing_of_a_stop_text_is_given_out_wherever_tokens_cut_it() -> None:
    tokenizer = make_tokenizer()
    ids = tokenizer(WHOLE, add_special_tokens=False)["input_ids"]
    rng = Random(0)
    for _ in range(60):
        start = rng.randrange(len(WHOLE) - 4)
        stops = [WHOLE[start : start + rng.randrange(1, 5)], "not there"]
        parts, stopped = streamed(tokenizer, ids, stops)
        assert stopped
        assert "".join(parts) == before_stops(WHOLE, stops)


def test_what_only_looked_like_a_stop_text_comes_in_the_end() -> None:
    tokenizer = make_tokenizer()
    ids = tokenizer("one\n", add_special_tokens=False)["input_ids"]
    parts, stopped = streamed(tokenizer, ids, ["\n\n"])
    assert not stopped
    assert "".join(parts) == "one\n"
    assert parts[-1] == "\n"
