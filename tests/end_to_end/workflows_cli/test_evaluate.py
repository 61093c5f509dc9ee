"""`argosy evaluate` with any model, `argosy judge`, and `argosy data` on what a cleaning has left."""

import json
import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from argosy.core.store.files import make_directory, write_json
from argosy.core.tracking.spool import owner_of
from argosy.model.infer import chat_api
from tests import warm
from tests.benchmark_files import stems, write_files
from tests.command_line import ARGOSY, Argosy
from tests.evaluation_fixtures import make_items, save_checkpoint
from tests.processes import ROOT
from tests.servers import judge_server

pytestmark = pytest.mark.usefixtures("warm")


def _argosy(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "k-123"}
    return warm.run([*ARGOSY, "judge", *arguments], cwd=cwd, env=environment)


def _write(path: Path, key: str, texts: list[str]) -> str:
    path.write_text("".join(json.dumps({"id": n, key: text}) + "\n" for n, text in enumerate(texts)))
    return path.name


def test_answers_in_files_and_a_server(tmp_path: Path) -> None:
    prompts = _write(tmp_path / "prompts.jsonl", "prompt", [f"Name a city, number {n} of all." for n in range(10)])
    a = _write(tmp_path / "a.jsonl", "answer", [f"Paris is one{n}." for n in range(10)])
    b = _write(tmp_path / "b.jsonl", "answer", ["so it is " * 5] * 9)
    labels = _write(tmp_path / "labels.jsonl", "winner", ["first"] * 4)

    def city(text: str, _: int) -> tuple[int, str]:
        return 200, "A" if text.index("Paris") < text.index("so it is") else "B"

    with judge_server(city) as asked:
        command = (a, b, "--prompts", prompts, "--labels", labels, "--judge", asked.url, "--judge-model", "m")
        done = _argosy(tmp_path, *command)
        again = _argosy(tmp_path, *command)
    assert (done.returncode, again.returncode) == (0, 0), done.stderr + again.stderr
    assert "the first wins 100.0%" in done.stdout
    assert done.stdout == again.stdout
    assert len(asked.bodies) == 18  # both orders, and nothing the second time
    assert asked.keys == ["Bearer k-123"] * 18
    [directory] = (tmp_path / "runs").glob("judge-*")
    assert all(b"k-123" not in path.read_bytes() for path in directory.rglob("*") if path.is_file())
    verdicts = [json.loads(line) for line in (directory / "verdicts.jsonl").read_text().splitlines()]
    assert {verdict["winner"] for verdict in verdicts} == {"first"}
    outputs = json.loads((directory / "outputs.json").read_text())["outputs"]
    assert outputs["metrics"]["win_rate"] == outputs["metrics"]["agreement"] == 1.0
    assert outputs["intervals"]["win_rate"][0] < 0.8
    assert (outputs["faults"]["second"]["loop"], outputs["faults"]["first"]["loop"]) == (1.0, 0)
    assert outputs["left_out"] == {"one of the two has no answer": 1}


def test_verdicts_that_are_missing_are_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                       argosy: Argosy) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(chat_api, "ChatApi", partial(chat_api.ChatApi, attempts=1))
    prompts = _write(tmp_path / "prompts.jsonl", "prompt", ["Name a city.", "Name a river."])
    a = _write(tmp_path / "a.jsonl", "answer", ["Paris.", "Seine."])
    b = _write(tmp_path / "b.jsonl", "answer", ["I will not."] * 2)
    replies: list[Any] = [(503, {}), (200, "Both are bad."), (200, "C")]
    with judge_server(lambda text, _: replies[0] if "river" in text else (200, "C")) as asked:
        command = ["judge", a, b, "--prompts", prompts, "--judge", asked.url, "--judge-model", "m"]
        said = "without a verdict: of 2 prompts, 1 x "
        assert f"{said}the judge did not answer after 1 attempts (HTTP 503); run it again" in argosy(*command).out
        del replies[0]
        assert f"{said}the judge's reply names no answer; --again asks once more" in argosy(*command).out
        argosy(*command)
        assert len(asked.bodies) == 6  # those alone, and not by itself
        del replies[0]
        out = argosy(*command, "--again").out
        assert len(asked.bodies) == 8
    assert "retrying verdicts, which failed last time" in out
    assert "without a verdict" not in out.rpartition("retrying")[2]


def write_benchmarks(root: Path) -> None:
    """OpenBookQA and C-Eval of made-up items; the other benchmarks of the suite are not there."""
    english = [item for item in make_items(80) if item.lang == "en"]
    chinese = [item for item in make_items(80) if item.lang == "zh"]
    rows = [["id", "question", *"ABCD", "answer"],
            *([str(n), i.question, *i.choices, "ABCD"[i.answer]] for n, i in enumerate(chinese))]  # fmt: skip
    files = {"openbookqa/Data/Main/test.jsonl": stems(english), "ceval/val/law_val.csv": rows}
    write_files(root, files)


def test_a_model_directory_is_evaluated_with_the_core_suite(tmp_path: Path, argosy: Argosy,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGOSY_BENCHMARKS", "")  # the command sets it; it is put back after the test
    save_checkpoint(tmp_path / "model")
    (tmp_path / "model/argosy.json").unlink()
    write_benchmarks(tmp_path / "data")
    command = ["evaluate", str(tmp_path / "model"), "--data", str(tmp_path / "data"), "--store", str(tmp_path / "runs"),
               "--threads", "1"]  # fmt: skip
    write_json(make_directory(tmp_path / "runs") / "last_run.json", {"config": {"name": "mine", "seed": 0}})
    printed = argosy(*command).out
    directory = Path(printed.strip().splitlines()[-1].rpartition(": ")[2])
    owner = owner_of(directory / "tracking/spool.jsonl")
    assert (owner.line, owner.name) == ("mine", "evaluate-model-core")  # experiment and run in MLflow
    results = json.loads((directory / "results.json").read_text())
    value = results["metrics"]["bench/openbookqa/plain/acc"]
    assert any(line.split()[:2] == ["openbookqa/plain/acc", f"{value:.3f}"] for line in printed.splitlines())
    assert results["counts"]["bench/ceval/numerals/acc"] == 40
    assert "bench/ceval_humanities/plain/acc" in results["metrics"]
    assert "left out of bench/piqa: 1 x no file piqa/**/valid.jsonl; get it from https://yonatan" in printed
    before = (directory / "results.json").stat().st_mtime_ns
    argosy(*command)
    assert (directory / "results.json").stat().st_mtime_ns == before
    (tmp_path / "data/ceval/val/law_val.csv").write_text("id,question,A,B,answer\n0,Q,x,y,A\n1,R,x,y,B\n")
    changed = Path(argosy(*command).out.strip().splitlines()[-1].rpartition(": ")[2])
    assert changed != directory
    said = argosy(*command[:2], "--data", str(tmp_path / "none"), "--store", str(tmp_path / "runs"), code=2).err
    assert "there is no such folder" in said


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
