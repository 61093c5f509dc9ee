"""ShareGPT's format: turns of human, gpt, system, function_call and observation, with what LLaMA-Factory adds."""

from collections.abc import Mapping
from typing import Any

from argosy.corpus.data.formats import Record, RecordFormat, take_text, with_replies
from argosy.corpus.data.turns import to_turns


class ShareGPT(RecordFormat):
    """Turns with `from` and `value`; a function_call is the assistant's turn that calls a tool."""

    name = "sharegpt"
    keys = "conversations (from, value), system?, tools?, chosen?, rejected?, kto_tag?"

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Tell whether there are `conversations`."""
        return "conversations" in record

    def read(self, record: Record) -> Record:
        """Put the system's message, where it stands apart, before the turns."""
        system = take_text(record, "system", "")
        turns = to_turns(record.pop("conversations"), "conversations")
        first = [{"role": "system", "content": system}] if system.strip() else []
        return with_replies(first + turns, record)
