"""Real text for comparisons with datatrove, and datatrove's filters with the words that ours look at."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from argosy.text.scripts import words

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
FOLDERS = ("zh_d2l", "en_rustbook", "zh_rustbook", "dolma_fixtures", "data_juicer_demo", "llamafactory_demo")


def real_texts() -> list[str]:
    """Return documents of several kinds: books, web pages, tables and scraps; skips where there is no test data."""
    if not SHARED.is_dir():
        pytest.skip(f"no test data at {SHARED}")
    return [text for name in FOLDERS for path in sorted((SHARED / name).rglob("*")) for text in _texts(path) if text]


def _texts(path: Path) -> Iterator[str]:
    if path.suffix == ".md":
        yield path.read_text(encoding="utf-8")
    elif path.suffix == ".jsonl" or path.name.endswith("documents__000.json.gz"):
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                # Two files of data-juicer's are JSON over several lines.
                value = json.loads(line) if line.startswith("{") and line.rstrip().endswith("}") else {}
                yield value.get("text") or ""


def peer(monkeypatch: pytest.MonkeyPatch, module: str) -> Any:
    """Import a module of datatrove's filters and give it our words."""
    other = pytest.importorskip(f"datatrove.pipeline.filters.{module}")
    if hasattr(other, "split_into_words"):
        monkeypatch.setattr(other, "split_into_words", lambda text, language: list(words(text)))
    return other
