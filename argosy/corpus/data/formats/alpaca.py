"""Alpaca's format (Taori et al. 2023), with LLaMA-Factory's keys: system, history, kto_tag, pairs."""

from collections.abc import Mapping
from typing import Any

from argosy.corpus.data.formats import Record, RecordFormat, take_history, take_text, with_replies
from argosy.corpus.data.schemas import assistant, user


class Alpaca(RecordFormat):
    """An instruction with its input a line below it, and its output; earlier turns are `history`, [[prompt, reply]]."""

    name = "alpaca"
    keys = "instruction, output, input?, system?, history?, chosen?, rejected?, kto_tag?"

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Tell whether there is an instruction with one answer."""
        return "instruction" in record and "instances" not in record

    def read(self, record: Record) -> Record:
        """Write the turns one after the other."""
        instruction, more = take_text(record, "instruction"), take_text(record, "input", "")
        system, output = take_text(record, "system", ""), take_text(record, "output", "")
        turns: list[Any] = [{"role": "system", "content": system}] if system.strip() else []
        turns += take_history(record)
        turns += user("\n".join(text for text in (instruction, more) if text.strip()))
        paired = "chosen" in record and "rejected" in record
        return with_replies(turns if paired else turns + list(assistant(output)), record)
