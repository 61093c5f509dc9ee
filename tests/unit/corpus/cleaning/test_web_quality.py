"""C4's lines and FineWeb's lists: what each rule takes, and why."""

import pytest

from tests.cleaning_fixtures import CHINESE, PROSE, outcome

PAGE = f"{PROSE}\n{PROSE}"


def test_c4_keeps_the_lines_that_are_sentences() -> None:
    lines = ["Home", "Read more...", "Two words.", f"{'x' * 1001} is a word too long.",
             "Please enable JavaScript to read this page.", "By reading on you agree to the Terms of Use.",
             "This line has no end"]
    assert outcome("c4_quality", "\n".join([*lines[:4], PAGE, *lines[4:]])) == PAGE
    assert outcome("c4_quality", f"{PAGE}\nThe sea[12] was [edit]calm[citation needed].") == (
        f"{PAGE}\nThe sea was calm.")
    assert outcome("c4_quality", f"[1] {PAGE}\r\n\r\n{PROSE}  ") == f"{PAGE}\n{PROSE}"
    assert outcome("c4_quality", f"{CHINESE}\n首页\n新闻中心\n{CHINESE}") == f"{CHINESE}\n{CHINESE}"


@pytest.mark.parametrize(("text", "reason"), [
    (PROSE, "too few sentences"), (f"{PAGE}\nLorem ipsum is a text.", "lorem ipsum"),
    (f"{PAGE}\nCall f() {{ return 1; }} to get it.", "curly bracket"), ("", "too few sentences")])  # fmt: skip
def test_c4_drops_pages(text: str, reason: str) -> None:
    assert outcome("c4_quality", text) == f"dropped: {reason}"


def test_c4_thresholds_can_be_changed() -> None:
    assert outcome("c4_quality", PROSE, min_sentences=3) == PROSE
    code = f"{PAGE}\nCall f() {{ return 1; }} to get it."
    assert outcome("c4_quality", code, drop_curly_brackets=False) == code
    assert outcome("c4_quality", f"{PAGE}\nAn offer of ours.", phrases=("Offer",)) == PAGE
    assert outcome("c4_quality", f"{PAGE}\nLorem ipsum is a text.", phrases=("lorem",)) == "dropped: lorem ipsum"


def test_three_long_lines_are_a_page() -> None:
    long = "word " * 40
    assert outcome("c4_paragraphs", f"{long}\n{long}\n\n{long}") == f"{long}\n{long}\n\n{long}"
    assert outcome("c4_paragraphs", f"{long}\n{long}\n{long[:-1]}") == "dropped: too few paragraphs"


@pytest.mark.parametrize(("text", "reason"), [
    (" \n\n", "no text"), ("\n".join(["a line of text which has no end at all"] * 9), "few lines end a sentence"),
    ("\n".join(f"Item {number}." for number in range(9)), "too many short lines"),
    (f"{PROSE}\n{PROSE}", "duplicate lines"), ("首页。\n新闻中心。\n港口的早晨。", "too many short lines"),
    ("\n\n".join(f"{'w' * 40}{number}." for number in range(9)), "too many newlines")])  # fmt: skip
def test_fineweb_drops_lists(text: str, reason: str) -> None:
    assert outcome("fineweb_quality", text) == f"dropped: {reason}"


def test_fineweb_may_keep_text_without_any_sentence_end() -> None:
    verse = "\n".join(f"the sea of the {day} is never a sea of glass" for day in ("first", "second", "third"))
    assert outcome("fineweb_quality", verse).startswith("dropped")
    assert outcome("fineweb_quality", verse, pass_without_punctuation=True) == verse
