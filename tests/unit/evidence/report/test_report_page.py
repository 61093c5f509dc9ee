"""The page: self-contained, well-formed, unbreakable by the data, and bounded in size."""

import json
import math
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.files import read_json, write_json
from argosy.corpus.tokens.epochs import ChannelEpochs
from argosy.evidence.compare.changes import compare
from argosy.evidence.compare.checkpoints import read_checkpoints
from argosy.evidence.report.chart import MOST_POINTS, Chart, Series, draw
from argosy.evidence.report.tables import glance
from steps.compare import STEP, CompareConfig
from tests.html_tags import TagReader, check_no_markup, check_self_contained
from tests.report_fixtures import DEMO, HONEST, HOSTILE, Model, Store, make_store
from tests.step_fixtures import run_step


def _compare(store: Store, **changes: Any) -> tuple[str, dict[str, Any]]:
    out = store.root / "compare"
    outputs = run_step(STEP, CompareConfig.model_validate({**store.config(), **changes}), out)
    return (out / "report.html").read_text(encoding="utf-8"), outputs


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return make_store(tmp_path_factory.mktemp("store"), items=40)


@pytest.fixture(scope="module")
def html(store: Store) -> str:
    return _compare(store)[0]


def test_it_is_whole_and_needs_no_network(html: str) -> None:
    assert {"verdict", "seen", "tables", "curves", "cleaning", "ran"} <= check_self_contained(html)
    for label in ("pretrain/p025", "pretrain/p050", "pretrain", "long_context", "anneal", "sft", "twin", "dpo", "rlhf"):
        assert f'data-label="{label}"' in html


def test_the_time_of_a_stage_is_told_by_cause_and_its_gpus_are_paid(html: str) -> None:
    [table] = re.findall(r'<table class="small goodput">.*?</table>', html, re.DOTALL)
    cells = [" ".join(re.sub("<[^>]+>", " ", cell).split()) for cell in re.findall("<t[hd].*?</t[hd]>", table)]
    half = len(cells) // 2  # 8 attempts of 100 s and 10 s between them; all but the last did 20 of 80 steps in vain
    assert dict(zip(cells[:half], cells[half:], strict=True)) == {
        "stage": "sft", "time from start to end": "870.0 s", "goodput": "58.4 %", "start-up": "80.0 s",
        "work done again": "140.0 s", "saving": "16.0 s", "waiting between attempts": "70.0 s",
        **dict.fromkeys(("out of memory", "hang", "lost node or GPU", "preemption", "stopped", "killed", "error"),
                        "8.0 s 1 ×"),
        "GPU-hours": "1.778", "cost": "4.44"}


def test_hostile_text_is_text(html: str) -> None:
    text = "".join(check_no_markup(html, scripts=2).text)
    assert "</script><script>alert(1)</script>" in text
    assert "{{ 7*7 }}" in text
    assert "中文文本" in text
    assert "⟨202E⟩gnp.exe⟨2066⟩" in text


def test_hostile_names_are_text_too(tmp_path: Path) -> None:
    store = make_store(tmp_path, DEMO[:1], items=5)
    done = read_json(Path(store.evaluations[0]) / "outputs.json")
    for kind in ("metrics", "stderr", "counts"):
        done["outputs"][kind] |= {f"bench/{HOSTILE}/plain/acc": 0.5, f"probe/p/{HOSTILE}/acc": 0.5}
    done["outputs"]["left_out"] = {HOSTILE: {HOSTILE: 3}}
    write_json(Path(store.evaluations[0]) / "outputs.json", done)
    seen = ChannelEpochs(HOSTILE, 10, 1.0, 1.0, 60.0, 6.0, 7.5, None, 4.0)
    report = {"mixture": {"channels": [asdict(seen) | {"alarm": seen.alarm}]}}
    write_json(Path(store.config()["checkpoints"][0]) / "report.json", report)
    decision = {"said": "step 9: spike", "advice": HOSTILE, "documents": [{HOSTILE: "nan", "text": HOSTILE}]}
    write_json(Path(store.config()["checkpoints"][0]) / "watch.json", {"decisions": [decision]})
    text = "".join(check_no_markup(_compare(store)[0], scripts=2).text)
    assert "7.5 epochs in all are above 4" in text
    assert "step 9: spike" in text


def test_charts_hold_what_was_logged(html: str) -> None:
    reader = TagReader(html)
    charts = [json.loads(str(a["data-series"])) for tag, a in reader.tags if tag == "figure" and "data-series" in a]
    names = [{series["n"] for series in chart} for chart in charts]
    assert {"code", "en", "knowledge_en", "knowledge_zh"} in names
    assert {"sft", "twin"} in names
    loss = charts[0][0]["p"]
    assert loss == sorted(loss)  # one curve over the phases, from left to right
    assert loss[-1][2] == "2.588M tokens"  # the last one that anneal logged
    assert all(46 <= x <= 448 and 22 <= y <= 218 for chart in charts for series in chart for x, y, *_ in series["p"])


@pytest.mark.parametrize("models", [DEMO[:1], HONEST[:5], (*HONEST, DEMO[-1])])
def test_a_part_of_the_pipeline_gives_a_shorter_page(models: tuple[Model, ...], tmp_path: Path, html: str) -> None:
    page, outputs = _compare(make_store(tmp_path, models, items=10), clean="", data="")
    TagReader(page)
    assert len(page) < len(html)
    assert outputs["seen"] == {"facts": []}
    said = json.dumps(read_json(tmp_path / "compare/comparison.json")["verdict"])
    assert not re.search(r"\bnan\b|None|twin" + ("" if models[-1].stage == "rlhf" else "|rlhf"), said)
    assert "No report of a clean step was given." in page


def test_the_numbers_are_the_same_wherever_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for place in ("one", "another/place"):
        store = make_store(tmp_path / place, DEMO[2:7], items=10)
        results.append((_compare(store)[1], (store.root / "compare/comparison.json").read_bytes()))
    assert results[0] == results[1]
    text = results[0][1].decode()
    assert str(tmp_path) not in text
    assert text == json.dumps(json.loads(text), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def test_the_first_table_says_who_is_better_forgot_or_has_seen_the_test(tmp_path: Path,
                                                                        capsys: pytest.CaptureFixture[str]) -> None:
    made = make_store(tmp_path, DEMO[2:], items=60)
    found = compare(read_checkpoints(made.checkpoints, made.evaluations))
    tasks, lines = glance(found)
    (task,) = found.tasks
    labels = {c.key: c.label for c in found.checkpoints.every}
    assert [each.task for each in tasks] == ["facts"]
    assert [line.label for line in lines] == [c.label for c in found.checkpoints.finals]
    of = {line.label: line for line in lines}
    assert of["twin"].seen == ("likely", "likely: facts")
    assert {label for label, line in of.items() if line.seen[0] == "likely"} == {"twin"}
    assert [label for label, line in of.items() if line.scores[0].best] == ([labels[task.best]] if task.best else [])
    for standing in task.standings:
        assert of[labels[standing.checkpoint]].scores[0].value == standing.headline
    assert "code" in of["sft"].forgotten
    html, outputs = _compare(made)
    assert outputs["seen"] == {"facts": ["twin"]}
    assert "twin has likely seen the test" in capsys.readouterr().out
    table = html.partition('<table class="glance">')[2].partition("</table>")[0]
    assert table.count("<tr>") == 1 + len(lines)
    assert f"headline, % right, in the form {task.headline[0]}" in table
    assert "likely: facts" in table
    assert "forgot code" in table


def test_what_is_not_a_number_is_left_out_and_many_points_become_few() -> None:
    points = [(float(x), math.sin(x / 50)) for x in range(5000)]
    points[100] = (100.0, math.nan)
    drawing = draw(Chart("t", "", "steps", [Series("a", points), Series("never", [(0.0, math.inf)])], []))
    assert [name for name, *_ in drawing.lines] == ["a"]
    drawn = drawing.data[0]["p"]
    assert isinstance(drawn, list)
    assert len(drawn) == MOST_POINTS
    assert (drawn[0][2], drawn[-1][2]) == ("0 steps", "4.999k steps")
    assert "nan" not in drawing.lines[0][2]
