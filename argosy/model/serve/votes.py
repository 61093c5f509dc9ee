"""Votes of the chat page: which of two answers is better, asked blindly; those that decide are preference pairs."""

import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from argosy.core.step.process import timestamp
from argosy.model.serve.protocol import Refusal

PAIRS, UNDECIDED = "preferences.jsonl", "undecided.jsonl"
_KEPT = 10_000  # pairs whose vote may still come
_WINNERS = ("left", "right", "tie", "neither")


class Votes:
    """Pairs of models under blind names, and the files of their votes.

    Args:
        folder: of `preferences.jsonl`, which `data.preferences` reads, and `undecided.jsonl`.
        about: what is known of each model, by name: its checkpoint and digest."""

    def __init__(self, folder: Path, about: Mapping[str, Mapping[str, Any]]) -> None:
        self.folder, self._about = folder, about
        self._pairs: OrderedDict[str, dict[str, str]] = OrderedDict()
        self._lock = threading.Lock()

    def real(self, name: str) -> str | None:
        """The model that a blind name stands for; None: it is no blind name."""
        number, _, side = name.partition("/")
        return self._pairs.get(number, {}).get(side)

    def pair(self, names: list[str]) -> dict[str, str]:
        """Draw two of the models, and return the blind names of both sides."""
        number = secrets.token_hex(8)
        first, second = secrets.SystemRandom().sample(names, 2)
        self._pairs[number] = {"left": first, "right": second}
        while len(self._pairs) > _KEPT:
            self._pairs.popitem(last=False)
        return {"id": number, "left": f"{number}/left", "right": f"{number}/right"}

    def vote(self, given: Any) -> dict[str, str]:
        """Keep a vote on two answers; returns which model was which.

        `given`: `id`, `winner` (left, right, tie, neither), `messages` (the prompt's turns), `left` and `right` (the
        answers), and `settings` of sampling. Raises Refusal: a field is absent or wrong."""
        fields = _checked(given)
        models = self._pairs.get(fields["id"])
        if models is None:
            raise Refusal(404, f"id is {fields['id']!r}: there is no such pair here, or it was voted on")
        decided = fields["winner"] in ("left", "right") and fields["left"].strip() != fields["right"].strip()
        record = self._record(fields, models, decided)
        with self._lock:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / (PAIRS if decided else UNDECIDED)).open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
            del self._pairs[fields["id"]]
        return models

    def _record(self, fields: Mapping[str, Any], models: Mapping[str, str], decided: bool) -> dict[str, Any]:
        prompt = fields["messages"]
        source = {"time": timestamp(), "settings": fields.get("settings") or {}, "winner": fields["winner"],
                  "left": {"model": models["left"], **self._about[models["left"]]},
                  "right": {"model": models["right"], **self._about[models["right"]]}}  # fmt: skip
        if not decided:
            return {"prompt": prompt, "left": fields["left"], "right": fields["right"], "vote": source}
        better = fields["winner"]
        worse = "right" if better == "left" else "left"
        return {"prompt": prompt, "chosen": [{"role": "assistant", "content": fields[better]}],
                "rejected": [{"role": "assistant", "content": fields[worse]}], "vote": source}


def _checked(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise Refusal(400, "a vote is an object of id, winner, messages, left, right")
    wanted = {"id": str, "left": str, "right": str, "winner": str, "messages": list}
    for name, kind in wanted.items():
        if not isinstance(given.get(name), kind):
            raise Refusal(400, f"{name} is {given.get(name)!r}; allowed: a {kind.__name__}", field=name)
    if given["winner"] not in _WINNERS:
        raise Refusal(400, f"winner is {given['winner']!r}; allowed: {', '.join(_WINNERS)}", field="winner")
    if not given["messages"] or not all(isinstance(turn, dict) and isinstance(turn.get("role"), str)
                                        and isinstance(turn.get("content"), str) for turn in given["messages"]):
        raise Refusal(400, "messages: a list of turns with role and content", field="messages")
    return given
