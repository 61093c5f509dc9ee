"""A prompt and its completion, with or without a label: TRL's prompt-completion and unpaired preference formats."""

from collections.abc import Mapping
from typing import Any

from argosy.corpus.data.formats import Record, RecordFormat
from argosy.corpus.data.schemas import user
from argosy.corpus.data.turns import to_turns

_REPLIES = ("completion", "response")


class Completion(RecordFormat):
    """A prompt and a reply, each as text or messages; a `label` (true or false) makes it feedback."""

    name = "completion"
    keys = "prompt, completion (or response), label?, tools?"

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Tell whether there are a prompt and one reply."""
        return "prompt" in record and any(key in record for key in _REPLIES) and "chosen" not in record

    def read(self, record: Record) -> Record:
        """Put the two together."""
        given, reply = record.pop("prompt"), record.pop(next((key for key in _REPLIES if key in record), _REPLIES[0]))
        prompt = [dict(turn) for turn in user(given)] if isinstance(given, str) else to_turns(given, "prompt")
        turns = to_turns(reply, "completion")
        if "label" in record:
            return {"prompt": prompt, "completion": turns, "label": record.pop("label")}
        return {"messages": prompt + turns}
