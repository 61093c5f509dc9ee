"""Who is told of a regression: a webhook where there is one, else whoever sees that the night ended red."""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from argosy.tracking.server import one_line
from workflows.nightly.judged import Alarm, alarms, told

TIMEOUT_S = 10.0
PAUSES_S = (1.0, 5.0, 15.0)  # between attempts


def tell(store: Path, by: str, webhook: str = "", links: Mapping[str, str] | None = None) -> list[str]:
    """Tell of what got worse and nobody knows yet; returns what is to be ended red with.

    A webhook that fails is a warning, and the next night tries again.

    Args:
        by: who asks; one that is tried again is given the same answer.
        links: further fields of the webhook's JSON, such as the workflow and its address.
    """
    red = []
    for alarm in alarms(store, by):
        if not webhook:
            red.append(alarm.sentence)
            told(store, alarm, by, "exit code")
        elif reason := post(webhook, message(alarm, links or {})):
            print(f"warning: the webhook at {_host(webhook)} was not told ({reason}); the next night tries "
                  f"again: {alarm.sentence}", file=sys.stderr, flush=True)
        else:
            print(f"told {_host(webhook)}: {alarm.sentence}", flush=True)
            told(store, alarm, by, "webhook")
    return red


def _host(url: str) -> str:
    """All of a webhook that may be shown: its path is what lets one post."""
    return urllib.parse.urlsplit(url).netloc.rpartition("@")[2] or "an address without a host"


def message(alarm: Alarm, links: Mapping[str, str]) -> dict[str, object]:
    """The webhook's JSON; `text` is what Slack, Mattermost and the like show."""
    return {"text": f"Argosy: {alarm.sentence}", "report": str(alarm.directory / "report.html"),
            "regressions": alarm.judged, **links}


def post(url: str, body: Mapping[str, object], sleep: Callable[[float], None] = time.sleep) -> str:
    """POST it as JSON, several times where it fails; returns why it did not arrive, or ""."""
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
            sleep(pause)
    return reason
