"""A server that speaks the chat completions API, and judges as a function of what it is asked."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from tests.servers import Handler, serving

Reply = Callable[[str, int], "tuple[int, Any]"]  # (question, number of the request) -> status, body or text


@dataclass
class Asked:
    """What arrived."""

    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)


@contextmanager
def judge_server(reply: Reply) -> Iterator[Asked]:
    """Serve on loopback; a text is sent as the assistant's message."""
    asked, lock = Asked(), Lock()

    class Judge(Handler):
        def do_POST(self) -> None:
            body = json.loads(self.body())
            with lock:
                asked.bodies.append(body)
                asked.keys.append(self.headers.get("Authorization", ""))
                number = len(asked.bodies)
            assert self.path == "/v1/chat/completions"
            status, answer = reply(body["messages"][0]["content"], number)
            if isinstance(answer, str):
                answer = {"choices": [{"message": {"role": "assistant", "content": answer}}]}
            self.reply(status, json.dumps(answer).encode(), {"Retry-After": "3"} if status == 429 else {})

    with serving(Judge) as url:
        asked.url = f"{url}/v1"
        yield asked
