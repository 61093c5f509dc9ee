"""Tasks of lm-eval by name: what cannot be loaded is named, what has no score left out, the rest are rows like ours."""

from pathlib import Path
from typing import Any

import pytest
import torch

from argosy.core.errors import InputError
from argosy.evidence.results.findings import Findings
from argosy.evidence.results.rows import Rows
from argosy.evidence.results.values import total
from argosy.model.infer.model import LanguageModel
from evals.lm_eval.run import kind_of
from tests.evaluation_fixtures import ask_benchmarks, make_items, make_language_model, write_items
from tests.lm_eval_fixtures import RIVERS, write_group, write_task, write_three_kinds

pytestmark = pytest.mark.usefixtures("own_tasks_alone")


def run(model: LanguageModel, root: Path, *, seed: int = 0, limit: int | None = None, **section: Any) -> Findings:
    return ask_benchmarks(model, root, {"include_path": str(root), **section}, seed=seed, limit=limit)


def test_a_name_that_cannot_be_loaded_is_named_and_the_others_are_asked(model: LanguageModel, tmp_path: Path) -> None:
    write_task(tmp_path, "rivers", RIVERS)
    write_task(tmp_path, "lost", None)
    write_items(tmp_path / "good.jsonl", make_items(8))
    found = run(model, tmp_path, tasks={"good": ["good.jsonl"]}, lm_eval=["lost", "rivers", "nobody"])
    assert found.counts["bench/rivers/plain/acc"] == 2
    assert found.kinds.keys() == found.metrics.keys()  # each has a declaration
    assert (found.counts["bench/good/plain/acc"], found.failed.keys()) == (8, {"bench/lost", "bench/nobody"})
    assert not found.retryable  # its data is a file that is not there, and no network's
    assert found.failed["bench/lost"].startswith("lm-eval cannot load it: FileNotFoundError: ")
    assert "'nobody' is not a registered task" in found.failed["bench/nobody"]
    assert str(tmp_path) not in str(found.failed)


def test_each_item_is_a_row_as_ours_are_and_groups_have_their_mean(model: LanguageModel, tmp_path: Path) -> None:
    write_three_kinds(tmp_path)
    found = run(model, tmp_path, lm_eval=["both", "said"])
    assert found.headline == {"few": ["plain"], "many": ["plain"], "said": ["strict"]}
    acc = {name: found.metrics[f"bench/{name}/plain/acc"] for name in ("few", "many", "both")}
    assert acc["both"] == pytest.approx((2 * acc["few"] + 6 * acc["many"]) / 8)
    assert found.counts["bench/both/plain/acc"] == 8
    assert run(model, tmp_path, limit=4, lm_eval=["many"]).counts["bench/many/plain/acc"] == 4
    rows = Rows(found.rows)
    of_items = [name for name in found.metrics if not name.startswith("bench/both/")]
    assert {"bench/few/plain/acc_norm", "bench/said/strict/acc", "bench/said/first_letter/exact_match"} < set(of_items)
    for name in of_items:
        values = rows.values(name)
        assert total(values) == pytest.approx(found.metrics[name]), name
        assert len(values) == found.counts[name]
    assert rows.by_form("said", "strict").keys() == {"said/0", "said/1"}
    row = rows.groups["many", "plain"][2]
    pairs = [("河 2", f" {text}") for text in (" stone", " water", " 水")]
    assert row["scores"] == pytest.approx([score.logprob for score in model.loglikelihood(pairs)], abs=1e-4)
    assert (row["id"], row["item"], row["gold"], row["lang"]) == ("many/2", "many/2", 2, "zh")
    assert row["correct"] == (row["chosen"] == 2)
    assert "gold" not in rows.groups["many", "plain"][1]  # no option of it is right
    assert len(rows.answers["many", "plain"].rows) == 5


def test_a_task_that_samples_draws_by_the_seed_alone(model: LanguageModel, tmp_path: Path) -> None:
    def texts(seed: int = 0, **sampling: Any) -> list[str]:
        write_task(tmp_path, "said", RIVERS, output_type="generate_until", doc_to_choice=None, metric_list=None,
                   generation_kwargs={"until": ["."], "max_gen_toks": 12, **sampling})  # fmt: skip
        return [row["text"] for row in run(model, tmp_path, seed=seed, lm_eval=["said"]).rows]

    greedy, sampled = texts(), texts(do_sample=True, temperature=1.5)
    assert texts(do_sample=True, top_k=1) == texts(do_sample=True, top_p=1e-6) == greedy
    assert texts(do_sample=True, temperature=1.5) == sampled
    assert len({*map(tuple, (greedy, sampled, texts(1, do_sample=True, temperature=1.5)))}) == 3


BROKEN = {3: "whale", 4: "whale", 8: "whale"}  # documents with a word that the model has no number for


def write_broken(root: Path, *, broken: bool = True) -> None:
    """Tasks `mine` and `other` in group `both`, and `text`, with the broken documents or without."""
    root.mkdir()
    docs = {n: {"q": f"Which is {BROKEN.get(n, 'stone')} {n}?", "c": ["stone", "salt", "the Nile"], "gold": n % 2}
            for n in range(12) if broken or n not in BROKEN}  # fmt: skip
    metrics = [{"metric": metric} for metric in ("acc", "acc_norm", "f1")]
    for name, some in (("mine", [*docs.values()]), ("other", [docs[n] for n in docs if n not in BROKEN][:6])):
        write_task(root, name, some, doc_to_text="Question: {{q}}\nAnswer:", metric_list=metrics)
    write_task(root, "text", [*docs.values()], output_type="loglikelihood_rolling", doc_to_choice=None, doc_to_text="",
               doc_to_target="{{q}}", metric_list=[{"metric": "byte_perplexity"}])  # fmt: skip
    write_group(root, "both", ["mine", "other"])


def test_documents_without_a_score_take_no_part_in_any_metric(tmp_path: Path) -> None:
    model = make_language_model()
    whale, before = (set(model.encode([f"Which is {word} 1?"])[0]) for word in ("whale", "stone"))
    with torch.no_grad():
        model.model.get_input_embeddings().weight[sorted(whale - before)] = float("nan")
    write_broken(tmp_path / "all")
    write_broken(tmp_path / "rest", broken=False)
    found, expected = (run(model, tmp_path / name, lm_eval=["both", "text"]) for name in ("all", "rest"))
    assert not expected.left_out
    assert {"bench/mine/plain/f1", "bench/both/plain/acc", "bench/text/plain/byte_perplexity"} < expected.metrics.keys()
    assert (found.metrics, found.counts) == (pytest.approx(expected.metrics), expected.counts)
    closed_form = {name for name in expected.stderr if not name.endswith("f1")}  # that one is drawn
    assert {name: found.stderr[name] for name in closed_form} == pytest.approx(
        {name: expected.stderr[name] for name in closed_form})
    assert found.left_out == {f"bench/{name}/plain": {"score is not a number": 3} for name in ("mine", "text")}
    assert {row["id"] for row in found.rows if row["task"] == "mine"} == {
        f"mine/{n}" for n in range(12) if n not in BROKEN}


def test_a_group_needs_all_its_tasks_and_others_keep_their_mean(model: LanguageModel, tmp_path: Path) -> None:
    for name in ("fine", "too"):
        write_task(tmp_path, name, RIVERS)
    write_task(tmp_path, "stops", [{**each, "c": None} for each in RIVERS])
    write_group(tmp_path, "broken", ["fine", "stops"])
    write_group(tmp_path, "whole", ["fine", "too"])
    found = run(model, tmp_path, lm_eval=["broken", "whole"])
    assert found.failed.pop("bench/stops").startswith("lm-eval stopped: TypeError: ")
    assert found.failed == {"bench/broken": "its task stops failed"}
    assert (found.counts["bench/fine/plain/acc"], found.counts["bench/whole/plain/acc"]) == (2, 4)


def test_a_name_in_tasks_that_lm_eval_loads_too_is_refused(model: LanguageModel, tmp_path: Path) -> None:
    write_broken(tmp_path / "all", broken=False)
    write_items(tmp_path / "all/items.jsonl", make_items(4))
    with pytest.raises(InputError, match=r"benchmarks: other is both of `tasks` and of `lm_eval` \(both\)"):
        run(model, tmp_path / "all", tasks={"other": ["items.jsonl"]}, lm_eval=["both"])


@pytest.mark.parametrize(("metric", "higher", "better", "share", "matters"), [
    ("bleu_acc", True, "higher", True, 0.02), ("rougeL_max", True, "higher", False, 1.0),
    ("word_perplexity", False, "lower", False, 0.1), ("bits_per_byte", False, "lower", False, 0.01),
    ("own", True, "higher", False, 0.02), ("unknown", None, "neither", False, 0.02)])  # fmt: skip
def test_a_metric_of_lm_eval_has_its_tasks_direction_and_a_difference_that_matters(
    metric: str, higher: bool | None, better: str, share: bool, matters: float) -> None:
    kind = kind_of(metric, {} if higher is None else {metric: higher})
    assert (kind.better, kind.share, kind.matters) == (better, share, matters)
