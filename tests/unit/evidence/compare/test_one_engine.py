"""The same two checkpoints, asked of the command, the step, the gate and the nights: one answer in value and words."""

import json
import shutil
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.core.store.files import read_json, write_json
from argosy.evidence.compare.changes import change
from argosy.evidence.compare.checkpoints import read_checkpoints
from argosy.evidence.compare.comparison import compare as comparison
from argosy.evidence.compare.entries import points
from argosy.evidence.compare.words import difference_text, p_text
from argosy.evidence.results.findings import Findings
from argosy.evidence.results.items import read_items, write_items
from steps import compare, regressions
from tests.command_line import Argosy
from tests.report_fixtures import HONEST, make_store
from tests.step_fixtures import run_step
from workflows.stored.names import Names

NAMES = ("bench/facts/headline/acc", "heldout/bpb/code")


def _numbers(found: dict[str, Any]) -> list[float]:
    """Before, after, low, high and the p-value, raw and corrected, as far as all give them."""
    return [round(found[name], 6) for name in ("before", "after", "low", "high", "p_value", "p_adjusted")]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which each family of tests has one test, so that every correction leaves it as it is."""
    root = tmp_path_factory.mktemp("store")
    make_store(root, [HONEST[1], HONEST[2], HONEST[3]], items=40)
    for evaluation in root.glob("evaluate-*-benchmark-*"):  # a form that cannot be made of each item
        rows = read_items(evaluation)
        lacking = sorted({row["item"] for row in rows if "item" in row})[:9]
        write_items(evaluation, [row for row in rows if row["variant"] != "permuted" or row["item"] not in lacking])
    steps = {}
    for path in root.iterdir():
        outputs = read_json(path / "outputs.json")["outputs"] if (path / "outputs.json").is_file() else {}
        for export in outputs.get("exports", ()):
            steps[path.name.partition("-")[0]] = path.name
            (path / export["path"]).mkdir(parents=True, exist_ok=True)
            write_json(path / export["path"] / "config.json", {})
    write_json(root / "last_run.json", {"config": {}, "directories": steps})
    return root


def test_the_command_the_step_the_gate_and_the_nights_agree(store: Path, tmp_path: Path, argosy: Argosy) -> None:
    first, second = (read_json(store / "last_run.json")["directories"][name] for name in ("pretrain", "long_context"))
    evaluations = sorted(str(path) for path in store.glob("evaluate-*-final-*"))
    for name in NAMES:
        told: dict[str, str] = {}
        command = ["compare", "--store", str(store), first, second, "--metrics", name]
        [contrast] = json.loads(argosy(*command, "--json").out)["pairs"][0]["contrasts"]
        said = argosy(*command, "--html", str(tmp_path / "page.html")).out
        told["command"], told["its page"] = said, (tmp_path / "page.html").read_text()
        out = tmp_path / f"step {name.partition('/')[0]}"
        own = [path for path in evaluations if ("heldout" in path) == name.startswith("heldout")]
        if name.startswith("heldout"):
            own = [_alone(Path(path), tmp_path, name) for path in own]
        checkpoints = tuple(str(store / each) for each in (first, second))
        run_step(compare.STEP, compare.CompareConfig(evaluations=tuple(own), checkpoints=checkpoints), out)
        record = read_json(out / "comparison.json")
        changes = record["heldout"] + [c for task in record["tasks"].values() for c in task["stages"]]
        [stage] = [each for each in changes if each["metric"] == name]
        told["step"] = json.dumps(record["verdict"], ensure_ascii=False)
        rules = tmp_path / "rules.yaml"
        rules.write_text(yaml.safe_dump({"rules": [{"not_worse": {"on": [name]}}]}))
        gate = ["gate", second, "--store", str(store), "--rules", str(rules), "--reference", first]
        [finding] = json.loads(argosy(*gate, "--json").out)["rules"][0]["findings"]
        told["gate"] = argosy(*gate).out
        pair = {side: [n for n, path in enumerate(own) if stage_name in Path(path).name]
                for side, stage_name in (("new", "long_context"), ("reference", "pretrain"))}
        night_out = tmp_path / f"night {name.partition('/')[0]}"
        config = regressions.RegressionsConfig.model_validate({"evaluations": own, "pairs": [pair]})
        judged = run_step(regressions.STEP, config, night_out)["judged"][0]
        night = judged["heldout"]["code"] if name.startswith("heldout") else judged["headlines"]["facts"]
        told["night"] = (night_out / "report.html").read_text()

        held = {**finding["numbers"], "p_adjusted": finding["p_adjusted"]}
        assert _numbers(contrast) == _numbers(stage) == _numbers(held) == _numbers(night)
        assert contrast["verdict"] == stage["verdict"] == night["verdict"]
        engine = read_checkpoints([store / first, store / second], own)
        found = change(name, engine[_key(first)], engine[_key(second)])
        words = difference_text(found)
        for where, text in told.items():
            assert words in unescape(text), (where, words)
            assert p_text(contrast["p_adjusted"]) in unescape(text), where
        if name == NAMES[0]:  # MLflow and curves have the same number
            [path] = [path for path in own if "pretrain" in Path(path).name]
            headline = read_json(Path(path) / "outputs.json")["outputs"]["headline"]
            sent = Findings(rows=read_items(path), headline=headline).charted()["headline/facts/acc"]
            entries = Names(store).entries([first])
            comparison(entries)
            curve = [value for _, value, _, _ in points(entries[0], name)]
            assert [entries[0].chosen.metrics[name], curve[-1]] == pytest.approx([sent, sent])


def _key(directory: str) -> str:
    """The key of a step's last checkpoint."""
    return f"{directory.rpartition('-')[2]}/final"


def _alone(evaluation: Path, root: Path, name: str) -> str:
    """A copy of an evaluation with one of its metrics."""
    copy = root / evaluation.name
    shutil.copytree(evaluation, copy, dirs_exist_ok=True)
    record = read_json(copy / "outputs.json")
    for key in ("metrics", "stderr", "counts"):
        record["outputs"][key] = {metric: value for metric, value in record["outputs"][key].items() if metric == name}
    write_json(copy / "outputs.json", record)
    return str(copy)
