"""`argosy data` on what a cleaning has left: why a document went, what a filter dropped, what a threshold changes."""

import json
from pathlib import Path

import pytest

from tests.command_line import Argosy

LOG = [f"On day {n} the crew of the ship wrote that the wind had turned and that they had to wait." for n in range(60)]
GOOD, LONG = " ".join(LOG[:12]), " ".join(LOG[20:])
MIXED = f"{GOOD}\n{' '.join(LOG[16:])}"
FILTERS = "clean.filters=[{name: gopher_quality, min_words: %d}, exact_dedup, line_dedup]"


@pytest.fixture
def store(tmp_path: Path, argosy: Argosy, no_mlflow: None) -> Path:
    """Of two cleanings of one corpus, the second one stricter."""
    lines = [json.dumps({"text": text}) for text in (GOOD, GOOD, "Too short.", LONG, MIXED)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    for least in (300, 50):
        argosy("run", "--preset", "tiny", "--store", str(tmp_path / "store"), "--to", "clean",
               f"data.inputs={tmp_path / 'corpus.jsonl'}", "clean.shards=2", FILTERS % least)
    return tmp_path / "store"


def test_a_document_s_way_is_told_and_what_another_threshold_drops(store: Path, argosy: Argosy) -> None:
    good, copy, short, mixed = (argosy("data", "explain", f"corpus.jsonl:{line}", "--store", str(store)).out
                                for line in (1, 2, 3, 5))
    assert "\n  kept\n" in mixed
    assert f"\n  {LOG[16]}" in mixed  # as it is trained on: without the line that is in the first one too
    assert f"  cut: {len(GOOD) + 1} of {len(MIXED)} characters, which other documents have too, such as: On" in mixed
    assert "\n  kept\n" in good
    assert "the one that stays: corpus.jsonl:1" in copy
    assert "dropped by gopher_quality: too short" in short
    dropped = argosy("data", "dropped", "gopher_quality", "--store", str(store)).out
    assert dropped.startswith("gopher_quality has dropped 1 documents: 1 too short\ncorpus.jsonl:3")

    stricter, loose = sorted(store.glob("clean-*"), key=lambda path: "300" not in (path / "outputs.json").read_text())
    differing = argosy("data", "diff", str(loose), str(stricter)).out
    assert "the second drops 1 documents more" in differing
    assert "corpus.jsonl:1" in differing


def test_trying_a_filter_shows_what_it_repairs_and_moves_no_terminal(tmp_path: Path, argosy: Argosy) -> None:
    (tmp_path / "dirty.jsonl").write_text(json.dumps({"text": f"{GOOD} \x1b[31m\u202e write to a.b@gmail.com"}))
    tried = argosy("data", "try", "pii", str(tmp_path / "dirty.jsonl")).out
    assert "a.b@gmail.com" in tried.split("after:")[0]
    assert "<EMAIL>" in tried.split("after:")[1]
    assert "\x1b" not in tried
    assert "\u202e" not in tried
    for given, told in (("near_dedup", "on files alone"), ("decontamination", "on files alone"),
                        ("[", "give a name, or an object")):  # fmt: skip
        assert told in argosy("data", "try", given, str(tmp_path / "dirty.jsonl"), code=2).err
