"""Announcements of regressions: to a webhook where there is one, else by the red end of the night.

All is read from the store: evaluations that a finished judgement counts as new are judged, and an announced judgement
has a file `<store>/.nightly/<its name>.json`, so that a crash between the two loses no alarm."""

import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.core.config.explain import first_of
from argosy.core.store.files import make_directory, read_record, write_json
from argosy.core.store.step_files import read_done
from argosy.core.tracking.mlflow.server import one_line

FOLDER = ".nightly"
TIMEOUT_S = 10.0
PAUSES_S = (1.0, 5.0, 15.0)  # between attempts


@dataclass(frozen=True)
class Alarm:
    """A judgement with regressions."""

    directory: Path
    worse: list[dict[str, Any]]  # the checkpoints with regressions

    @property
    def sentence(self) -> str:
        """One line of what got worse."""
        first = self.worse[0]
        more = f"; and {len(self.worse) - 1} more" if len(self.worse) > 1 else ""
        against = f"is worse than {first['reference']}" if "gate" not in first else "fails the gate"
        return (f"{first['label']} {against}: {first_of(first['regressions'], 1)}{more}; "
                f"report: {self.directory / 'report.html'}")


def judged_evaluations(store: Path) -> set[str]:
    """Digests of the evaluations of checkpoints that were judged."""
    judged: set[str] = set()
    for _, done in _judgements(store):
        digests = done["made_from"]["upstream"].get("evaluations", [])
        for pair in done["made_from"]["config"].get("pairs", []):
            judged.update(digests[place] for place in pair["new"] if place < len(digests))
    return judged


def alarms(store: Path, by: str) -> list[Alarm]:
    """Judgements with regressions that were not announced yet, or that `by`, which is tried again, announced."""
    return [Alarm(directory, worse) for directory, done in _judgements(store)
            if (worse := [each for each in done["outputs"]["judged"] if each.get("regressions")])
            and read_record(_note(store, directory)).get("by", by) == by]


def _note(store: Path, directory: Path) -> Path:
    return store / FOLDER / f"{directory.name}.json"


def _judgements(store: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for directory in sorted(store.glob("regressions-*")):
        if (done := read_done(directory)) is not None:
            yield directory, done


def announce(store: Path, by: str, webhook: str = "", links: Mapping[str, str] | None = None) -> list[str]:
    """Announce the regressions that nobody was told of; returns the sentences with which the night is to end red.

    A webhook that fails is a warning, and the next night tries again. `by`: the night; one that is tried again gets
    the same answer. `links`: further fields of the webhook's JSON, such as the workflow and its address."""
    red = []
    for alarm in alarms(store, by):
        if not webhook:
            red.append(alarm.sentence)
        elif reason := post(webhook, message(alarm, links or {})):
            print(f"warning: the webhook at {_host(webhook)} was not told ({reason}); the next night tries "
                  f"again: {alarm.sentence}", file=sys.stderr, flush=True)
            continue
        else:
            print(f"told {_host(webhook)}: {alarm.sentence}", flush=True)
        make_directory(store / FOLDER)
        write_json(_note(store, alarm.directory), {"by": by, "how": "webhook" if webhook else "exit code"})
    return red


def _host(url: str) -> str:
    """The host of a webhook; its path, which lets one post, is not to be shown."""
    return urllib.parse.urlsplit(url).netloc.rpartition("@")[2] or "an address without a host"


def message(alarm: Alarm, links: Mapping[str, str]) -> dict[str, object]:
    """The webhook's JSON; `text` is what Slack, Mattermost and the like show."""
    return {"text": f"Argosy: {alarm.sentence}", "report": str(alarm.directory / "report.html"),
            "regressions": alarm.worse, **links}


def post(url: str, body: Mapping[str, object]) -> str:
    """POST JSON, several times where it fails; returns why it did not arrive, or ""."""
    data = json.dumps(body, ensure_ascii=False).encode()
    reason = ""
    for pause in (*PAUSES_S, None):
        try:
            request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=TIMEOUT_S):
                return ""
        except urllib.error.HTTPError as error:
            reason = f"HTTP {error.code}"
            if 400 <= error.code < 500 and error.code not in (408, 429):
                return reason  # another attempt would be answered alike
        except ValueError:
            return "it is no URL that can be asked"
        except OSError as error:
            reason = one_line(error)
        if pause is not None:
            time.sleep(pause)
    return reason
