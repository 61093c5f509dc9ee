"""Messages as OpenAI's interface has them: roles with contents, tools and calls of them."""

from collections.abc import Mapping
from typing import Any

from argosy.corpus.data.formats import Record, RecordFormat, with_replies
from argosy.corpus.data.turns import to_turns


class Messages(RecordFormat):
    """Turns with `role` and `content`, which is text or a list of parts (text, reasoning, tool_call); beside them a
    `label` makes it feedback on the last reply."""

    name = "messages"
    keys = "messages (role, content, tool_calls?), tools?, chosen?, rejected?, label?"

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Tell whether there are `messages`."""
        return "messages" in record

    def read(self, record: Record) -> Record:
        """Bring contents and calls of tools into one form."""
        return with_replies(to_turns(record.pop("messages"), "messages"), record)
