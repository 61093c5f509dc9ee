"""Probes and channel losses of a line's checkpoints are curves: a point at the tokens each has seen, with an error."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from argosy.compare.checkpoints import Checkpoint
from argosy.compare.page.tables import prefix_tables
from argosy.evaluation.items import read_items
from tests.evaluation_fixtures import make_tokenizer, run_evaluate, save_checkpoint
from tests.heldout_fixtures import write_tokens

SUITE = """
probes:
  - {name: word, kind: next_token, cases: [{prefix: 长江, text: 茶}, {prefix: The river, text: " stone"}]}
  - name: capital
    kind: relation
    relations:
      - {name: c, patterns: ["[X]的首都是[Y]。", "[Y]是[X]的首都。"], facts: [[法国, 巴黎], [日本, 东京], [中国, 北京]]}
  - {name: kinds, kind: contrastive, file: pairs.jsonl, optional: true}
heldout: {texts: {zh: zh.jsonl}, positions: {length: 32}, memorisation: {samples: 5, prefix: 4, continuation: 4}}
"""


def test_a_point_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(SUITE, encoding="utf-8")
    texts = ["长江 定理。蓝鲸 茶 " * n for n in (3, 9, 12)]
    (tmp_path / "zh.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    write_tokens(tmp_path / "tokens", make_tokenizer(), {"train": {"zh": texts[:2]}, "heldout": {"zh": texts[1:]}})
    found = [_evaluate(tmp_path, name, tokens) for name, tokens in (("half", 500), ("end", 1000))]
    for (results, spool, rows), tokens in zip(found, (500, 1000), strict=True):
        logged = [record for record in spool if record["kind"] == "model_metrics"]
        assert {record["tokens"] for record in logged} == {tokens}
        points = {name: value for record in logged for name, value in record["values"].items()}
        names = {"probe/mine/word/mass", "probe/mine/capital/consistency", "heldout/bpb/zh", "heldout/context_gain/zh",
                 "heldout/nats_at/zh/16_32", "memorisation/exact_gap/zh"}
        assert names <= points.keys()
        assert points == results["metrics"]
        single = {name for name, n in results["counts"].items() if n == 1 or "chance" in name or "same" in name}
        for name in results["metrics"].keys() - single:
            assert math.isfinite(results["stderr"][name]), name
        assert results["left_out"]["probe/mine/kinds"] == {"no file: pairs.jsonl": 1}
        assert {row["variant"] for row in rows} == {"word", "capital", "zh", "nats_at/zh", "memorisation/zh"}
    assert found[0][0]["metrics"].keys() == found[1][0]["metrics"].keys()


def _evaluate(root: Path, name: str, tokens: int) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    checkpoint = save_checkpoint(root / name).path
    about = {"stage": "pretrain", "step": tokens, "tokens": tokens, "chat": False}
    (checkpoint / "argosy.json").write_text(json.dumps(about))
    out = root / f"out-{name}"
    results = run_evaluate(out, checkpoint=str(checkpoint), suite_file=str(root / "mine.yaml"),
                           tokens=str(root / "tokens"))  # fmt: skip
    spool = [json.loads(line) for line in (out / "tracking/spool.jsonl").read_text().splitlines()]
    return results, spool, read_items(out)


def test_parts_of_a_probe_make_no_columns_of_a_report() -> None:
    """ParaRel has 39 relations of three measures each."""
    names = ["probe/pararel/all/acc", *(f"probe/pararel/all/P{n}/acc" for n in range(39)), "probe/mine/word/mass"]
    checkpoints = [Checkpoint("a/1", "a", "pretrain", "1", 1, 10, label="a", metrics=dict.fromkeys(names, 0.5))]
    tables = prefix_tables(checkpoints, {})
    assert [len(table.columns) for table in tables] == [1, 1]
