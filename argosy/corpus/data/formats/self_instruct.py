"""Self-Instruct's format (Wang et al. 2022): an instruction with several instances, of which one is taken."""

from collections.abc import Mapping
from typing import Any

from argosy.corpus.data.formats import Record, RecordFormat, take_text
from argosy.corpus.data.schemas import ParseError, assistant, user


class SelfInstruct(RecordFormat):
    """An instruction with `instances`, each an input and an output; the first of them becomes the conversation, and a
    record with several is refused, as one line is one conversation."""

    name = "self_instruct"
    keys = "instruction, instances (input, output)"

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Tell whether there is an instruction with instances."""
        return "instruction" in record and "instances" in record

    def read(self, record: Record) -> Record:
        """Write the instance as Alpaca's format does."""
        instruction, instances = take_text(record, "instruction"), record.pop("instances")
        if not isinstance(instances, list) or len(instances) != 1 or not isinstance(instances[0], dict):
            raise ParseError("instances: allowed: a list of one object", repr(instances)[:60])
        instance = dict(instances[0])
        more, output = take_text(instance, "input", ""), take_text(instance, "output")
        prompt = "\n".join(text for text in (instruction, more) if text.strip())
        return {"messages": [*user(prompt), *assistant(output)]}
