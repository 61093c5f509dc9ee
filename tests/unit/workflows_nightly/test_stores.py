"""What a night reads from a store; and promotions, which move an alias only from what the gate compared with."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from argosy.core.errors import InputError
from argosy.core.statistics.metric import as_records, share
from argosy.core.store.files import make_directory, write_json
from argosy.core.store.provenance import Identities
from argosy.core.tracking.mlflow.registry import Moved, Registry, Version
from argosy.core.tracking.mlflow.server import CHECKPOINT, Server, default_uri
from argosy.evidence.gate.check import Verdict, check
from argosy.evidence.gate.config import Gate
from argosy.evidence.gate.subject import nobody
from steps.regressions import STEP, RegressionsConfig
from tests.command_line import Argosy
from tests.nightly_fixtures import webhook
from tests.step_fixtures import run_step
from workflows.cli import main
from workflows.nightly import candidates, promotion
from workflows.nightly.announce import alarms, announce, judged_evaluations
from workflows.nightly.candidates import Candidate, by_name, find_candidates, gate_for
from workflows.nightly.night import Night, Request, plan_nights
from workflows.nightly.promotion import Grounds, alone, promote
from workflows.stored.last_run import checkpoint_directory

PROBE = "probe/probes/json/acc"


def trained(store: Path, number: int, stage: str = "sft", exports: tuple[int, ...] = (100,), source: int = 0) -> Path:
    """The directory of a finished training step with these exports, which goes on from the step `source`."""
    directory = store / f"{stage}-{number:012}"
    for export in exports:
        path = make_directory(directory / f"checkpoints/p{export}")
        write_json(path / "config.json", {"architectures": ["LlamaForCausalLM"]})
    record = {"node": stage, "part": "", "step": stage, "digest": f"{number:012}", "config": {},
              "upstream": {"checkpoint": [f"{source:012}"]} if source else {}}
    outputs = {"exports": [{"name": f"p{n}", "path": f"checkpoints/p{n}", "step": n} for n in exports],
               "final": f"checkpoints/p{exports[-1]}"}
    write_json(directory / "outputs.json", {"outputs": outputs, "made_from": record})
    return directory


def evaluate(night: Night, level: Callable[[str, int], float]) -> None:
    """Finish the cells of a night: of the probe `json` each checkpoint, by its stage and step, has `level`."""
    for cell in night.cells:
        made_from = json.loads(cell.provenance) | {"step": "evaluate", "digest": cell.digest, "config": {}}
        [of] = Path(night.store).glob(f"*-{made_from['upstream']['checkpoint'][0]}")
        stage, step = of.name.partition("-")[0], int(cell.part.split("-")[1].removeprefix("p").replace("final", "100"))
        about = {"stage": stage, "name": f"p{step}", "step": step, "chat": False,
                 "tokens": 1000 * step + 100_000 * ("pretrain", "anneal", "sft").index(stage)}
        outputs = {"checkpoint": about, "suite": "probes", "metrics": {PROBE: level(stage, step)}, "left_out": {},
                   "headline": {}, "kinds": as_records({PROBE: share()})}
        write_json(make_directory(Path(cell.dir)) / "outputs.json", {"outputs": outputs, "made_from": made_from})


def test_a_drop_after_the_checkpoints_of_the_phases_before_is_told(tmp_path: Path) -> None:
    trained(tmp_path, 1, "pretrain", tuple(range(10, 101, 10)))
    trained(tmp_path, 2, "anneal", source=1)
    trained(tmp_path, 3, "sft", source=2)
    [night] = plan_nights(tmp_path, Request(suites=["probes"]))
    evaluate(night, lambda stage, step: 0.6 - 1 / step if stage == "pretrain" else 0.3)
    judgement = night.judgement()
    assert judgement is not None
    found = run_step(STEP, RegressionsConfig.model_validate_json(judgement.config), tmp_path / "out")
    judged = {each["label"]: each for each in found["judged"]}
    [text] = judged["anneal/p100 (000000)"]["regressions"]
    assert text.startswith(f"{PROBE} left its trend after pretrain/p100 (000000) (100,000 tokens): 30.0 %")
    few = {label: each["untested"] for label, each in judged.items() if "untested" in each}
    assert few == {f"{label} (000000)": [f"no trend of 1 probes and channels: {n} of 5 earlier checkpoints"]
                   for label, n in [*((f"pretrain/p{n + 1}0", n) for n in range(5)), ("sft/p100", 0)]}
    assert "0 of 5 earlier checkpoints" in (tmp_path / "out/report.html").read_text()


def test_judgements_of_nights_count_and_pairwise_ones_do_not(tmp_path: Path) -> None:
    made_from = {"step": "regressions", "upstream": {"evaluations": ["e1", "e2"]}, "config": {"pairs": [{"new": [1]}]}}
    judged = [{"checkpoint": "a/p100", "label": "sft/p100 (a)", "reference": "b", "regressions": ["acc fell"]}]
    for name, outputs in (("regressions-0", {"judged": judged}), ("judge-1", {"verdicts": "verdicts.jsonl"})):
        write_json(make_directory(tmp_path / name) / "outputs.json", {"outputs": outputs, "made_from": made_from})
    assert judged_evaluations(tmp_path) == {"e2"}
    assert [each.directory.name for each in alarms(tmp_path, "tonight")] == ["regressions-0"]


def test_a_webhook_that_fails_for_a_while_is_told_once_and_only_its_host_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("workflows.nightly.announce.PAUSES_S", (0.0,))
    judged = [{"label": "sft/p100 (a)", "reference": "b", "regressions": ["acc fell"]}]
    made_from = {"step": "regressions", "upstream": {}, "config": {}}
    done = {"outputs": {"judged": judged}, "made_from": made_from}
    write_json(make_directory(tmp_path / "regressions-0") / "outputs.json", done)
    with webhook((503, 503, 503, 200)) as (url, heard):
        for night in ("one", "two", "three"):
            assert announce(tmp_path, night, url, {"workflow": night}) == []
    assert [(each["workflow"], each["regressions"]) for each in heard] == [("one", judged)] * 2 + [("two", judged)] * 2
    assert heard[0]["text"].startswith("Argosy: sft/p100 (a) is worse than b: acc fell; report: ")
    said = "".join(capsys.readouterr())
    assert "was not told (HTTP 503)" in said
    assert "/hook" not in said


def test_a_stage_is_the_last_run_s_for_every_command_and_without_one_the_newest(tmp_path: Path) -> None:
    for number, ended in ((1, 50.0), (2, 90.0)):
        write_json(trained(tmp_path, number) / "run.json", {"ended": ended})

    def named(name: str) -> tuple[str, list[str]]:
        found = by_name(name, find_candidates(tmp_path), tmp_path, Identities())
        return str(checkpoint_directory(tmp_path, name).relative_to(tmp_path)), [each.key for each in found]

    assert named("sft") == ("sft-000000000002", ["000000000002/p100"])
    write_json(tmp_path / "last_run.json", {"config": {}, "directories": {"sft": "sft-000000000001"}})
    assert named("sft") == ("sft-000000000001", ["000000000001/p100"])
    assert named("sft/final") == ("sft-000000000001/checkpoints/p100", ["000000000001/p100"])


def test_a_line_whose_config_cannot_be_read_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    for number, line in enumerate(("bad", "good")):
        tracking = make_directory(trained(tmp_path, number) / "tracking")
        (tracking / "spool.jsonl").write_text(f'{{"kind": "header", "line": "{line}"}}\n')
    write_json(make_directory(tmp_path / ".pipelines/x") / "config.json", {"name": "bad", "bogus": 1})
    bad, good = plan_nights(tmp_path, Request())
    assert (bad.line, bad.pairs, good.wrong, len(good.pairs)) == ("bad", (), "", 1)
    assert bad.wrong.startswith("bad is left out: ")
    assert "bogus is not a field" in bad.wrong
    assert main(["nightly", "--dry-run", "--store", str(tmp_path)]) == 1
    [named] = plan_nights(tmp_path, Request(checkpoints=[str(tmp_path / "sft-000000000001")]))
    assert named.line == "good"


def test_a_config_of_another_version_is_named_rather_than_the_line_judged_without_its_gate(tmp_path: Path) -> None:
    config = {"name": "mine", "sft": {"checkpoint": "runs/anneal"}}
    write_json(make_directory(tmp_path / ".pipelines/new") / "config.json", config)
    assert gate_for(None, tmp_path, "other") is None
    with pytest.raises(InputError, match=r"new/config\.json, the newest config of .* 'mine', .*sft\.checkpoint is set"):
        gate_for(None, tmp_path, "mine")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Server:
    """With the checkpoints a/final, b/final and c/final of the line `tiny`."""
    root = tmp_path_factory.mktemp("mlflow")
    found = Server(default_uri(root), root)
    with found.errors():
        experiment = found.client.create_experiment("tiny", str(root / "artifacts"))
        for name in "abc":
            found.client.create_logged_model(experiment, name=name, tags={CHECKPOINT: f"{name}/final"})
    return found


def chosen(name: str) -> Candidate:
    return cast(Candidate, SimpleNamespace(key=f"{name}/final", label=name, step=SimpleNamespace(line="tiny")))


def test_what_was_moved_meanwhile_stays_also_from_another_store(server: Server, tmp_path: Path,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    registry, keep = Registry(server), promotion.keep
    promote(registry, chosen("a"), tmp_path, Grounds(against=""), alias="one")
    promote(registry, chosen("b"), tmp_path, Grounds(against="a/final"), alias="one")  # the other process
    with pytest.raises(Moved, match="was moved meanwhile, from a/final to b/final, which was not compared"):
        promote(registry, chosen("c"), tmp_path, Grounds(against="a/final"), alias="one")
    assert len(list((tmp_path / ".promotions").glob("*.json"))) == 2

    def meanwhile(*given: Any) -> Path:  # no lease holds there: the registry itself looks again before it moves
        if given[2] == "begun":
            Registry(server).move("tiny", "one", "tiny", "a/final", {})
        return keep(*given)

    monkeypatch.setattr(promotion, "keep", meanwhile)
    with pytest.raises(Moved, match="from b/final to a/final"):
        promote(registry, chosen("c"), tmp_path, Grounds(against="b/final"), alias="one")
    now = registry.at("tiny", "one")
    assert now is not None
    assert now.checkpoint == "a/final"


def test_one_promotion_of_a_store_waits_for_the_other(server: Server, tmp_path: Path) -> None:
    registry, moved = Registry(server), threading.Event()
    found: list[tuple[Version | None, Version]] = []

    def second() -> None:
        found.append(promote(registry, chosen("b"), tmp_path, Grounds(), alias="three"))
        moved.set()

    thread = threading.Thread(target=second)
    with alone(tmp_path):
        thread.start()
        assert not moved.wait(0.5)
        registry.move("tiny", "three", "tiny", "a/final", {})
    thread.join(60)
    [(before, now)] = found
    assert (before.checkpoint, now.checkpoint) == ("a/final", "b/final")


def test_what_an_alias_names_already_is_held_against_what_it_named_before(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argosy: Argosy) -> None:
    references: list[Any] = []

    def hold(gate: Gate, new: Candidate, reference: Any, store: Path) -> Verdict:
        references.append(reference)
        return check(gate, nobody("a"), None)

    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    monkeypatch.setattr("workflows.nightly.promotion.hold", hold)
    for name in "ba":
        monkeypatch.setattr(candidates, "last_by_name", lambda *_, name=name: chosen(name))
        command = ["promote", "sft", "--store", str(tmp_path), "--alias", "five"]
        said = argosy(*command)
    assert "tiny@five is a/final (version" in said.out
    for rule, options, code, words in (("better_on", [], 1, "tiny@five names it already: nothing was moved"),
                                       ("better_on", ["--force", "why"], 0, "already: nothing was moved; forced"),
                                       ("not_worse", [], 0, "already: nothing was moved; the gate holds")):  # fmt: skip
        (tmp_path / "gate.yaml").write_text(f"rules: [{rule}]")
        said = argosy(*command, "--gate", str(tmp_path / "gate.yaml"), *options, code=code)
        assert words in said.out + said.err
    assert references == ["b/final"] * 3
    assert len(list((tmp_path / ".promotions").glob("*.json"))) == 2


@pytest.mark.parametrize("command", [["promote", "sft"], ["promote", "--undo"], ["gate", "sft"]])
@pytest.mark.parametrize(("option", "value"), [("--alias", "a.b"), ("--alias", "latest"), ("--alias", "v2"),
                                               ("--model", ""), ("--model", "a:b"), ("--model", "..")])  # fmt: skip
def test_names_that_mlflow_cannot_take_are_refused(option: str, value: str, command: list[str], tmp_path: Path,
                                                   argosy: Argosy) -> None:
    said = argosy(*command, "--store", str(tmp_path), option, value, code=2).err
    assert f"{option} is {value!r}, allowed: letters, digits, '_'" in said
    assert not list(tmp_path.iterdir())
