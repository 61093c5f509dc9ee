"""What the report and the page show beside the funnel: documents near a threshold, and languages by channel."""

from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.files import read_json
from argosy.corpus.data.schemas import Document
from argosy.evidence.report.cleaning import cleaning_page
from tests.cleaning_fixtures import CHINESE, PROSE, cleaned, make_data

FILTERS: Any = ["language", {"name": "gopher_quality", "min_words": 20, "min_stop_words": 0}, "exact_dedup"]


@pytest.mark.parametrize("shards", [1, 3])
def test_the_nearest_documents_on_both_sides_of_a_threshold_are_shown(
    shards: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARGOSY_LINE", raising=False)
    words = f"<{PROSE}".split()
    documents = [Document(f"{n}", " ".join(words[:n]), "web") for n in (5, 17, 18, 19, 20, 21, 22, 24, 40)]
    documents += [Document("zh", CHINESE, "web"), Document("book", CHINESE[:60], "books")]
    data = make_data(tmp_path / "data", documents)
    cleaned(tmp_path, data, shards, filters=FILTERS, samples_per_reason=3)
    report = read_json(tmp_path / "clean/report.json")
    near = [row for row in report["near_misses"] if row["score"] == "words" and row["limit"] == 20]
    assert [(row["kept"], row["value"]) for row in near] == [
        (False, 19), (False, 18), (False, 17), (True, 20), (True, 21), (True, 22)]
    assert near[0]["text"] == " ".join(words[:19])
    assert {name: counts["in"] for name, counts in report["languages"]["web"].items()} == {"en": 9, "zh": 1}
    assert report["languages"]["books"] == {"zh": {"in": 1, "out": 1, "bytes_in": 180}}
    page = cleaning_page(report)
    assert page == (tmp_path / "clean/report.html").read_text(encoding="utf-8")
    assert "dropped: words 19, limit 20 (too short)" in page
    assert "&lt;The harbour" in page
    assert "<The" not in page
