"""What repairs of a batch must not miss: characters, and lines that a corpus repeats."""

import random
import re

import numpy as np
import pytest

from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Resources
from argosy.corpus.cleaning.filters.unicode import Unicode, UnicodeConfig, clean_text
from tests.cleaning_fixtures import CHINESE, PROSE, document, make

PIECES = [CHINESE, PROSE, "“It’s a café” — that’s…", "Съешь же ещё этих булок", "Ἀθῆναι", "각하", "naïve", "a\u0301",
          "각", "&amp;", "\u200b", "\x85", "\r\n", "锟斤拷", "烫烫烫", "\ue000", "\ufffd", "é ", "\u212b", "😀", "ação",
          " ", "１３", "ݽ", "one\x0ctwo"]


LOST = re.compile("锟斤拷|烫烫烫|屯屯屯|[\ufffd\ue000-\uf8ff]")


def misread(text: str, rng: random.Random) -> str:
    codec = rng.choice(("latin-1", "cp1252", "cp1251", "cp1250", "cp1254", "macroman", "cp437", "gb18030"))
    return text.encode().decode(codec, "replace")


def test_the_fast_way_is_the_slow_way() -> None:
    rng = random.Random(7)
    drawn = ["".join(misread(piece, rng) if rng.random() < 0.3 else piece for piece in rng.choices(PIECES, k=4))
             for _ in range(400)]
    texts = [*PIECES, *(misread(piece, rng) for piece in PIECES for _ in range(4)), *drawn, *(chr(code) * 2 for code in
             range(1, 0x3000))]
    one = Unicode(UnicodeConfig(), Resources())
    repaired, scores = one(Batch([document(text) for text in texts]))
    wanted = [clean_text(text) for text in texts]
    assert [text for text, got, want in zip(texts, repaired.texts, wanted, strict=True) if got != want] == []
    assert np.array_equal(scores["visible"], [sum(not c.isspace() for c in text) for text in wanted])
    lost = [len("".join(LOST.findall(text))) / max(len(text), 1) for text in wanted]
    assert np.array_equal(scores["broken_share"], lost)
    assert len({*lost}) > 20


def test_clean_documents_are_the_same_objects() -> None:
    batch = Batch([document(text) for text in (CHINESE, PROSE, "它说：“好”——然后……走了。", "Plain — “quoted”, naïve.")])
    assert Unicode(UnicodeConfig(), Resources())(batch)[0] is batch


REPEATED = "- [Back to the directory of all chapters](preface.md)"
CODE = "from harbour import boats as all_of_the_boats"


def test_lines_of_many_documents_go() -> None:
    texts = [f"{REPEATED}\n\nPage {number}. {PROSE}\n\n```\n{CODE}\n```" for number in range(30)]
    sample = [document(text) for text in texts]
    text = f"{PROSE}\n  {REPEATED}\n{CODE}\n```\n{CODE}\n```\n{CHINESE}"
    kept, scores = make("boilerplate", Resources(sample=sample))(Batch([document(text)]))
    assert kept.texts == [f"{PROSE}\n{CODE}\n```\n{CODE}\n```\n{CHINESE}"]
    assert scores["lines"].tolist() == [1]
    for few in (Resources(sample=sample[:9]), Resources()):
        assert make("boilerplate", few)(Batch([document(text)]))[0].texts == [text]
    other = make("boilerplate", Resources(sample=sample), repeated_share=1)
    assert other(Batch([document(text)]))[0].texts == [text]


@pytest.mark.parametrize(("text", "expected"), [
    ("", ""), ("\n", ""), ("a", "a"), ("a\n\n\n\nb  \n", "a\n\nb"), ("\n\na\n \n\t\nb", "a\n\nb"),
    ("  a b\n", "  a b"),
    (f"{PROSE}\n首页 | 新闻中心\n", PROSE), (f"Home | About | Our cats | Blog\n{PROSE}", PROSE),
    (f"{PROSE} | Home", f"{PROSE} | Home"), (f"{CHINESE}\n京ICP证030173号", CHINESE)])  # fmt: skip
def test_surplus_and_menus(text: str, expected: str) -> None:
    alone = make("boilerplate")(Batch([document(text)]))[0].texts[0]
    among = make("boilerplate")(Batch([document(each) for each in ("", text, "\n", text, "x\n")]))[0].texts
    assert (alone, among[1], among[3]) == (expected, expected, expected)
