"""The page and the terminal of a comparison: every number is the source's, no text becomes markup, nothing is cut in
silence, and what is missing makes it shorter."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.files import read_json
from argosy.corpus.text.display import visible
from argosy.evidence.compare.comparison import compare
from argosy.evidence.compare.entries import Compared, Entry
from argosy.evidence.compare.terminal import terminal
from argosy.evidence.report.items import Asked
from argosy.evidence.report.page import as_script
from argosy.evidence.report.record import record
from argosy.evidence.report.report import ComparisonPage
from argosy.evidence.results.contamination import seen_of
from argosy.evidence.results.items import read_items
from steps.compare import question_texts
from tests.command_line import Argosy
from tests.comparison_fixtures import entry
from tests.html_tags import TagReader, check_no_markup, check_self_contained
from tests.report_fixtures import CHANNELS, HONEST, HOSTILE, TWIN, make_lines, make_store
from workflows.stored.names import Names


def _data(html: str) -> Any:
    """The JSON that the script reads."""
    return json.loads(next(text for text in TagReader(html).text if text.startswith('{"groups"')))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lines")
    make_lines(root, checkpoints=4, items=30)
    return root


@pytest.fixture(scope="module")
def found(store: Path) -> Compared:
    return compare(Names(store).entries(["line:base", "line:mixed", "line:replay"]))


@pytest.fixture(scope="module")
def html(found: Compared) -> str:
    page = ComparisonPage.of(found)
    return page.render(question_texts([e.chosen for e in found.entries], page.wanted()))


def test_it_is_whole_and_needs_no_network(html: str) -> None:
    assert {"verdict", "metrics", "curves", "items", "seen", "watch", "all", "method"} <= check_self_contained(html)


def test_every_number_is_the_evaluations(html: str, found: Compared, store: Path) -> None:
    source = {e.label: _metrics_of(store, e) for e in found.entries}
    rows = [a for tag, a in TagReader(html).tags if tag in ("tr", "td")]
    values: dict[str, list[float]] = {}
    for attributes in rows:
        if "data-name" in attributes:
            current = values.setdefault(str(attributes["data-name"]).split(" ")[0], [])
        elif str(attributes.get("class", "")).startswith("n value"):
            current.append(float(str(attributes["data-v"])))
    assert "bench/facts/headline/acc" in found.metrics
    assert not any(name.endswith("/chance") for name in found.metrics)  # a constant is no row
    for name in found.metrics:
        if "/headline/" not in name:
            expected = [source[e.label][name] for e in found.entries]
            assert values[name.lower()] == pytest.approx(expected, rel=1e-7), name


def _metrics_of(store: Path, entry: Entry) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for path in store.glob(f"evaluate-pretrain-{entry.chosen.name}-*"):
        done = read_json(path / "outputs.json")
        if done["made_from"]["upstream"]["checkpoint"] == [entry.chosen.digest]:
            metrics |= done["outputs"]["metrics"]
    return metrics


def test_the_truth_of_the_made_up_lines_is_found(found: Compared) -> None:
    mixed, replay = found.pairs
    better = {c.name for c in mixed.section("better")}
    assert {"heldout/bpb/knowledge_zh", "bench/facts_zh/headline/acc"} <= better
    assert [c.name for c in mixed.section("worse")] == ["heldout/bpb/code"]
    assert not any(c.name.startswith(("heldout/bpb/en", "bench/facts_en")) for c in mixed.section("better"))
    assert not replay.section("better")
    assert not replay.section("worse")


def test_questions_that_differ_are_shown_with_their_probabilities(html: str, found: Compared) -> None:
    data = _data(html)
    rows = [{(r["task"], r["variant"], r["id"]): r for path in e.chosen.evaluations for r in read_items(path)}
            for e in found.entries]  # fmt: skip
    differ = sum(rows[0][key]["correct"] != other[key]["correct"] for other in rows[1:] for key in rows[0]
                 if "correct" in rows[0][key])
    assert data["count"] == differ == sum(gained + lost for _, _, gained, lost in data["totals"])
    for item in data["items"]:
        key = (*data["groups"][item["g"]], item["i"])
        assert (item["r"], item["y"]) == ([int(of[key]["correct"]) for of in rows], rows[0][key]["gold"])
        assert all(abs(sum(shares) - 1000) <= 3 for shares in item["s"])
        assert [shares.index(max(shares)) for shares in item["s"]] == item["c"] == [of[key]["chosen"] for of in rows]
        assert item["p"]
        assert len(item["o"]) == 4
    assert any("国家的首都" in item["p"] for item in data["items"])


def test_hostile_text_is_text(found: Compared) -> None:
    page = ComparisonPage.of(found)
    html = page.render({key: Asked(HOSTILE, (HOSTILE, "b", "c", "d")) for key in page.wanted()})
    check_no_markup(html, scripts=3)
    assert _data(html)["items"][0]["p"].startswith("</script><script>alert(1)</script>")
    assert json.loads(as_script({"a": HOSTILE + "\u2028"})) == {"a": visible(HOSTILE) + "\u2028"}


def test_hostile_names_are_text_too() -> None:
    metrics = {f"bench/{HOSTILE}/plain/acc": 0.5, f"probe/p/{HOSTILE}/acc": 0.25, HOSTILE: 0.1}
    entries = [entry(f"{HOSTILE}{n}", metrics=metrics) for n in range(2)]
    check_no_markup(ComparisonPage.of(compare(entries)).render(), scripts=3)
    assert "\u202e" not in terminal(compare(entries), 100)


@pytest.mark.parametrize(("first", "second", "said"), [
    ({"a": 1.0}, {"b": 2.0}, "x and y have no metric in common: evaluate both with the same suite."),
    ({"bench/t/plain/acc": 0.5}, {"bench/t/plain/acc": 0.5}, "Not tested"),
    ({"bench/t/plain/acc": float("nan")}, {"bench/t/plain/acc": 0.5}, "a value is not a number")])
def test_little_to_compare_is_still_a_page(first: dict[str, float], second: dict[str, float], said: str) -> None:
    found = compare([entry("x", metrics=first), entry("y", metrics=second)])
    assert said in "".join(TagReader(ComparisonPage.of(found).render()).text)
    assert said in terminal(found, 120)
    assert "NaN" not in json.dumps(record(found))


def test_the_command_writes_the_file(store: Path, tmp_path: Path, argosy: Argosy) -> None:
    file = tmp_path / "page.html"
    names = ["line:base", "line:mixed", "--metrics", "heldout/bpb/*"]
    assert f"page: {file} (" in argosy("compare", "--store", str(store), "--html", str(file), *names).out
    assert "heldout/bpb/code" in file.read_text(encoding="utf-8")
    made = json.loads(argosy("compare", "--store", str(store), "--json", *names).out)
    assert set(made["metrics"]) == {f"heldout/bpb/{channel}" for channel in CHANNELS}
    said = argosy("compare", "--store", str(store), "--html", str(tmp_path / "no/page.html"), *names, code=2).err
    assert "allowed: a file to be written, in a directory that is there" in said


def test_who_has_seen_the_test_is_told_first(tmp_path: Path) -> None:
    store = make_store(tmp_path, (*HONEST[2:], TWIN), items=40)
    names = [Path(path).name for path in store.checkpoints if Path(path).name.startswith(("sft", "twin"))]
    found = compare(Names(tmp_path).entries(names))
    assert [e.label for e in found.entries] == ["sft", "twin"]
    plain = next(c for c in found.pairs[0].contrasts if c.name == "bench/facts/plain/acc")
    assert plain.difference.value > 0.05  # which is not knowledge:
    html = ComparisonPage.of(found).render()
    said = [text for text in TagReader(html).text if "has likely seen the test" in text]
    assert re.match(r"facts: twin has likely seen the test: score \+0\.\d\d \[", said[0])
    score = seen_of(found.entries[1].chosen.rows)["facts"]
    assert score.interval in said[0]
    assert record(found)["entries"][1]["contamination"]["facts"]["score"] == score.found.score
    assert [text for text in TagReader(html).text if text.startswith("likely: ")] == ["likely: facts"]
    sentences = re.findall(r'<p class="said (\w+)">', html)
    assert sentences[0] == "seen"
    families = [c.kind.family for c in found.pairs[0].contrasts]
    assert html.count(">likely seen</small>") == families.count("facts") > 0
    assert "Note: facts: twin has likely seen the test" in terminal(found, 120)
    (line,) = [line for line in terminal(found, 120).splitlines() if line.startswith("B twin") and "memorised" in line]
    assert score.interval in line
    line = _data(html)["columns"]
    assert [label for _, label, _, _ in line].count("anneal") == 1  # what both went through is shown once
