"""Preference pairs: chosen and rejected replies to a prompt that stands apart, or with which both begin."""

import re
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from argosy.corpus.data.formats import Record, RecordFormat
from argosy.corpus.data.schemas import ParseError, user
from argosy.corpus.data.turns import to_turns

_TURN = re.compile(r"\n\n(Human|Assistant): ?")  # in the texts of Anthropic's hh-rlhf
_SIDES = (("chosen", "rejected"), ("chosen_messages", "rejected_messages"))


class Pairs(RecordFormat):
    """Pairs with a `prompt`, as text or messages, or without: then it is the turns that both sides begin with."""

    name = "pairs"
    keys = "prompt?, chosen, rejected (text or messages; also chosen_messages, rejected_messages), margin?, tools?"

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Tell whether there are two sides, and no conversation beside them."""
        beside = any(key in record for key in ("messages", "conversations", "instruction"))
        return not beside and any(a in record and b in record for a, b in _SIDES)

    def read(self, record: Record) -> Record:
        """Split the prompt from the replies."""
        names = next((names for names in _SIDES if names[0] in record), _SIDES[0])
        chosen, rejected = (_turns(record.pop(name), name) for name in names)
        if "prompt" in record:
            prompt = record.pop("prompt")
            asked = [dict(turn) for turn in user(prompt)] if isinstance(prompt, str) else to_turns(prompt, "prompt")
            if chosen[: len(asked)] == asked == rejected[: len(asked)]:  # the prompt once more, as in UltraFeedback
                chosen, rejected = chosen[len(asked) :], rejected[len(asked) :]
        else:
            shared = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(chosen, rejected, strict=False)))
            asked, chosen, rejected = chosen[:shared], chosen[shared:], rejected[shared:]
        if not asked:
            raise ParseError("there is no prompt, and chosen and rejected begin with no common turn")
        if not (chosen and rejected):
            raise ParseError("chosen and rejected are equal")
        return {"prompt": asked, "chosen": chosen, "rejected": rejected}


def _turns(value: Any, field: str) -> list[Record]:
    """Read one side; a text with turns of Human and Assistant in it is a conversation."""
    if not isinstance(value, str) or not _TURN.match(value):
        return to_turns(value, field)
    parts = _TURN.split(value)[1:]
    roles = {"Human": "user", "Assistant": "assistant"}
    return [{"role": roles[who], "content": text.strip()} for who, text in zip(parts[::2], parts[1::2], strict=True)]
