"""Prompts for reinforcement learning, with what their rewards check."""

import json
from collections.abc import Mapping
from typing import Any

from argosy.corpus.data.formats import Record, RecordFormat
from argosy.corpus.data.schemas import ParseError, user
from argosy.corpus.data.turns import to_turns

_REPLIES = ("completion", "response", "chosen", "chosen_messages", "messages", "conversations", "instruction")


class Prompt(RecordFormat):
    """A prompt, as text or messages, or a question; a reference in `answer`, or where verl has it."""

    name = "prompt"
    keys = "prompt (or question), accept?, answer?, tests?, schema?, pattern?, language?"

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Tell whether there is a prompt without a reply, or a question."""
        return ("prompt" in record or "question" in record) and not any(key in record for key in _REPLIES)

    def read(self, record: Record) -> Record:
        """Write the prompt as messages."""
        given = record.pop("prompt" if "prompt" in record else "question")
        prompt = [dict(turn) for turn in user(given)] if isinstance(given, str) else to_turns(given, "prompt")
        found: Record = {"prompt": prompt}
        model = record.get("reward_model")
        if "answer" not in record and isinstance(model, dict) and isinstance(model.get("ground_truth"), str):
            found["answer"] = model["ground_truth"]
        if isinstance(record.get("answer"), int | float) and not isinstance(record["answer"], bool):
            found["answer"] = str(record.pop("answer"))
        if isinstance(record.get("tests"), str):
            found["tests"] = [record.pop("tests")]
        if isinstance(record.get("schema"), str):  # as tables have it
            found["schema"] = _object(record.pop("schema"))
        return found


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParseError("schema: no JSON", str(error)) from None
