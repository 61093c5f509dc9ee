"""An S3 server of this machine, as a process."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

BUCKET = "argosy"


@contextlib.contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Start it with an empty bucket BUCKET; yields the environment of its clients."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "MOTO_IAM_LOAD_MANAGED_POLICIES": ""},
    )  # fmt: skip
    try:
        _wait_for(port)
        environment = {
            "AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests", "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        }  # fmt: skip
        import s3fs

        s3fs.S3FileSystem(
            key="tests", secret="tests", endpoint_url=environment["AWS_ENDPOINT_URL"], skip_instance_cache=True
        ).mkdir(BUCKET)
        yield environment
    finally:
        server.kill()
        server.wait()


@contextlib.contextmanager
def busy_server(behind: str, faults: list[int]) -> Iterator[str]:
    """The URL of a server in front of `behind`: it answers requests with the HTTP status of each fault, then passes on.

    A status of 0 breaks the connection without an answer.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = faults.pop(0) if faults else None
            if fault == 0:
                self.close_connection = True
                return
            status, headers, answer = (fault, {"Content-Length": "0"}, b"") if fault else self._passed_on(body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        do_PUT = do_POST = do_DELETE = do_HEAD = do_GET

        def _passed_on(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
            connection = http.client.HTTPConnection(urlsplit(behind).netloc)
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            data, names = answer.read(), ("ETag", "Last-Modified", "Content-Length")
            headers = {"Content-Length": str(len(data))} | {n: v for n in names if (v := answer.getheader(n))}
            return answer.status, headers, data

        def log_message(self, *_: object) -> None:
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _wait_for(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        time.sleep(0.1)
    raise TimeoutError("the S3 server did not start")
