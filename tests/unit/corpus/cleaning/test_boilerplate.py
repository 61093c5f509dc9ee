"""Lines that a corpus repeats, and what a scan of a batch must not miss."""

import pytest

from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Resources
from tests.cleaning_fixtures import CHINESE, PROSE, document, make

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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""), ("\n", ""), ("a", "a"), ("a\n\n\n\nb  \n", "a\n\nb"), ("\n\na\n \n\t\nb", "a\n\nb"),
        ("  a b\n", "  a b"),
        (f"{PROSE}\n首页 | 新闻中心\n", PROSE), (f"Home | About | Our cats | Blog\n{PROSE}", PROSE),
        (f"{PROSE} | Home", f"{PROSE} | Home"), (f"{CHINESE}\n京ICP证030173号", CHINESE),
    ],
)  # fmt: skip
def test_surplus_and_menus(text: str, expected: str) -> None:
    alone = make("boilerplate")(Batch([document(text)]))[0].texts[0]
    among = make("boilerplate")(Batch([document(each) for each in ("", text, "\n", text, "x\n")]))[0].texts
    assert (alone, among[1], among[3]) == (expected, expected, expected)
