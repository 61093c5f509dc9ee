"""A form that a suite's YAML writes by itself (`template`): in results, MLflow's records, the report and the gate."""

import json
import sys
from pathlib import Path

from argosy.evidence.gate.subject import read_subject
from argosy.evidence.results.items import read_items
from tests import warm
from tests.comparison_fixtures import judged
from tests.evaluation_fixtures import make_items, save_checkpoint, write_items

SUITE = """\
benchmarks:
  tasks: {mine: [mine.jsonl]}
  variants:
    plain:
    told: &told
      template:
        prompt: {en: "{options}\\nGiven this, {question}\\nRight:", zh: "{options}\\n{question}选"}
        option: "({label}) {text}"
        answer: "({label})"
    told_written: [*told, {few_shot: {n: 2}}, {generative: {max_tokens: 4}}]
"""


def _run(step: str, config: dict[str, object], out: Path) -> None:
    """Run a step as the cluster does."""
    asked = ["--config", json.dumps(config), "--out", str(out)]
    assert warm.run([sys.executable, "-m", f"steps.{step}", *asked]).returncode == 0


def test_a_form_by_yaml_alone_is_in_results_tracking_report_and_gate(tmp_path: Path) -> None:
    write_items(tmp_path / "mine.jsonl", make_items(12))
    (tmp_path / "suite.yaml").write_text(SUITE)
    evaluations = []
    for name in ("one", "two"):
        save_checkpoint(tmp_path / name)
        out = tmp_path / f"evaluate-{name}"
        given = {"checkpoint": str(tmp_path / name), "suite_file": str(tmp_path / "suite.yaml")}
        _run("evaluate", given, out)
        evaluations.append(str(out))
    found = json.loads((out / "results.json").read_text())
    metrics = found["metrics"]
    assert {f"bench/mine/{name}" for name in ("told/acc", "told_written/acc", "told_written/unparsable")} <= {*metrics}
    assert found["headline"] == {"mine": ["plain", "told", "told_written"]}
    rows = [row for row in read_items(Path(evaluations[0])) if row["variant"] == "told_written"]
    assert metrics["bench/mine/told_written/acc"] == sum(row["correct"] for row in rows) / len(rows)
    assert "bench/mine/told/acc" in (Path(evaluations[0]) / "tracking/spool.jsonl").read_text()  # what MLflow gets
    _run("compare", {"evaluations": evaluations}, tmp_path / "compare")
    assert "told_written" in (tmp_path / "compare/report.html").read_text()
    assert "bench/mine/told/acc" in json.dumps(json.loads((tmp_path / "compare/comparison.json").read_text()))
    verdict = judged({"at_least": {"bench/mine/told/acc": 1.1}}, read_subject([Path(evaluations[0])]))
    assert "bench/mine/told/acc" in str(verdict)
