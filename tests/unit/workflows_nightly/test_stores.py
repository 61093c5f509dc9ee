"""What a night reads from a store: earlier judgements, and checkpoints by the names that every command knows."""

from pathlib import Path

import pytest

from argosy.core.errors import InputError
from argosy.core.store.files import write_json
from argosy.core.store.provenance import Identities
from tests.nightly_fixtures import webhook
from workflows.cli import main
from workflows.nightly.announce import alarms, announce, judged_evaluations
from workflows.nightly.candidates import by_name, find_candidates, gate_for
from workflows.nightly.night import Request, plan_nights
from workflows.stored.last_run import checkpoint_directory


def trained(store: Path, number: int) -> Path:
    """The directory of a finished step `sft` with one checkpoint."""
    directory, place = store / f"sft-{number:012}", "checkpoints/p100"
    (directory / place).mkdir(parents=True)
    write_json(directory / place / "config.json", {"architectures": ["LlamaForCausalLM"]})
    record = {"node": "sft", "part": "", "step": "sft", "digest": f"{number:012}", "upstream": {}, "config": {}}
    outputs = {"exports": [{"name": "p100", "path": place, "step": 1}], "final": place}
    write_json(directory / "outputs.json", {"outputs": outputs, "made_from": record})
    return directory


def test_judgements_of_nights_count_and_pairwise_ones_do_not(tmp_path: Path) -> None:
    made_from = {"step": "regressions", "upstream": {"evaluations": ["e1", "e2"]}, "config": {"pairs": [{"new": [1]}]}}
    judged = [{"checkpoint": "a/p100", "label": "sft/p100 (a)", "reference": "b", "regressions": ["acc fell"]}]
    for name, outputs in (("regressions-0", {"judged": judged}), ("judge-1", {"verdicts": "verdicts.jsonl"})):
        (tmp_path / name).mkdir()
        write_json(tmp_path / name / "outputs.json", {"outputs": outputs, "made_from": made_from})
    assert judged_evaluations(tmp_path) == {"e2"}
    assert [each.directory.name for each in alarms(tmp_path, "tonight")] == ["regressions-0"]


def test_a_webhook_that_fails_for_a_while_is_told_once_and_only_its_host_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("workflows.nightly.announce.PAUSES_S", (0.0,))
    (tmp_path / "regressions-0").mkdir()
    judged = [{"label": "sft/p100 (a)", "reference": "b", "regressions": ["acc fell"]}]
    made_from = {"step": "regressions", "upstream": {}, "config": {}}
    write_json(tmp_path / "regressions-0/outputs.json", {"outputs": {"judged": judged}, "made_from": made_from})
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
        tracking = trained(tmp_path, number) / "tracking"
        tracking.mkdir()
        (tracking / "spool.jsonl").write_text(f'{{"kind": "header", "line": "{line}"}}\n')
    (tmp_path / ".pipelines/x").mkdir(parents=True)
    write_json(tmp_path / ".pipelines/x/config.json", {"name": "bad", "bogus": 1})
    bad, good = plan_nights(tmp_path, Request())
    assert (bad.line, bad.pairs, good.wrong, len(good.pairs)) == ("bad", (), "", 1)
    assert bad.wrong.startswith("bad is left out: ")
    assert "bogus is not a field" in bad.wrong
    assert main(["nightly", "--dry-run", "--store", str(tmp_path)]) == 1
    [named] = plan_nights(tmp_path, Request(checkpoints=[str(tmp_path / "sft-000000000001")]))
    assert named.line == "good"


def test_a_config_of_another_version_is_named_rather_than_the_line_judged_without_its_gate(tmp_path: Path) -> None:
    (tmp_path / ".pipelines/new").mkdir(parents=True)
    write_json(tmp_path / ".pipelines/new/config.json", {"name": "mine", "sft": {"checkpoint": "runs/anneal"}})
    assert gate_for(None, tmp_path, "other") is None
    with pytest.raises(InputError, match=r"new/config\.json, the newest config of .* 'mine', .*sft\.checkpoint is set"):
        gate_for(None, tmp_path, "mine")
