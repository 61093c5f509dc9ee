"""Events of a profile: what they may say, and what Argo Events is told (tests/cluster/test_events.py has it do so)."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.core.errors import InputError
from workflows.argo.manifests.documents import manifests
from workflows.argo.profile.profile import Profile, load_profile
from workflows.stored.events import ALIASES, CHECKPOINTS, note_event, watch_events


def profile(folder: Path, **more: Any) -> Profile:
    given = {"storage": {"claim": "store"}, **more}
    (folder / "team.yaml").write_text(yaml.safe_dump(given))
    return load_profile(str(folder / "team.yaml"))


HOOK = {"secret": "a/b"}


@pytest.mark.parametrize(("event", "words"), [
    ({"webhook": HOOK, "alias": "reference"}, "one of webhook, push, bucket, folder, checkpoint and alias; given: "),
    ({}, "given: none"),
    ({"webhook": HOOK, "parameters": {"overrides": "a={name}"}}, "a webhook has none: let the request set the"),
    ({"webhook": HOOK, "parameters": {"presett": "tiny"}}, "sets 'presett', which is no parameter of lifecycle"),
    *(({"alias": "a", "parameters": given}, f"events.each.parameters{words}") for given, words in (
        ({"preset": "nosuch"}, ".preset is 'nosuch', allowed: "), ({"promote": "maybe"}, ".promote is 'maybe', allow"),
        ({"preset": "tiny", "overrides": "seed=1\nsft.ratee=1"}, ": sft.ratee=1: sft.ratee is not a field"),
        ({"preset": "tiny", "to": "sftt"}, ": there is no stage 'sftt'; nearest: sft"))),
    ({"checkpoint": ["sftt"]}, "nearest: sft"), ({"folder": {"path": "/data"}}, "give a folder below /store"),
    ({"webhook": {**HOOK, "accepts": ["suites"]}}, "sets 'suites', which is no parameter of lifecycle")])  # fmt: skip
def test_an_event_that_could_submit_nothing_is_refused(event: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        manifests(profile(tmp_path, events={"each": event}))


def test_a_store_in_a_bucket_has_no_files_to_watch(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="take an event of its bucket"):
        profile(tmp_path, storage={"uri": "s3://a/b"}, tracking={"uri": "http://m"}, events={"a": {"alias": "b"}})


def test_names_of_notes_are_those_that_the_source_watches_for(tmp_path: Path) -> None:
    """The files of both kinds of notes, against the regular expression of each event's source."""
    events = {"trained": {"checkpoint": ["sft", "rlhf"]}, "moved": {"alias": "reference"}}
    [files, _] = manifests(profile(tmp_path, events=events))["events"]
    note_event(tmp_path, CHECKPOINTS, "sft-0123456789ab", {})
    assert not (tmp_path / ".events").exists()  # nobody watches
    watch_events(tmp_path)
    for name in ("sft-0123456789ab", "dpo-0123456789ab", "rlhf-0123456789ab"):
        note_event(tmp_path, CHECKPOINTS, name, {"stage": name})
    for alias in ("reference", "other"):
        note_event(tmp_path, ALIASES, f"a line@{alias}@x/final-2026-01-01T00:00:00+00:00", {})
    seen = {}
    for name, spec in files["spec"]["file"].items():
        folder = tmp_path / Path(spec["watchPathConfig"]["directory"]).relative_to("/store/runs")
        pattern = re.compile(spec["watchPathConfig"]["pathRegexp"])
        seen[name] = sorted(path.name for path in folder.iterdir() if pattern.search(path.name))
    assert seen == {"trained": ["rlhf-0123456789ab.json", "sft-0123456789ab.json"],
                    "moved": ["a_line@reference@x_final-2026-01-01T00_00_00_00_00.json"]}  # fmt: skip
