"""A server that speaks the chat completions API, and judges as a function of what it is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

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

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                asked.bodies.append(body)
                asked.keys.append(self.headers.get("Authorization", ""))
                number = len(asked.bodies)
            assert self.path == "/v1/chat/completions"
            status, answer = reply(body["messages"][0]["content"], number)
            if isinstance(answer, str):
                answer = {"choices": [{"message": {"role": "assistant", "content": answer}}]}
            raw = json.dumps(answer).encode()
            self.send_response(status)
            if status == 429:
                self.send_header("Retry-After", "3")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    asked.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield asked
    finally:
        server.shutdown()
        server.server_close()
