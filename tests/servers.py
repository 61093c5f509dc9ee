"""Servers on loopback: any, and one that speaks the chat completions API and judges as a function of a question."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """Silent; reads a body and answers at once."""

    def body(self) -> bytes:
        """Of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def reply(self, status: int, data: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Answer, with the length of `data` unless `headers` say another."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


class Server(ThreadingHTTPServer):
    """One that lets many clients wait."""

    request_queue_size, daemon_threads = 64, True


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve meanwhile; yields the URL."""
    server = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


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
