"""An S3 server of this machine, as a process."""

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

from tests.servers import Handler, serving

BUCKET = "argosy"


@contextlib.contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Start it with an empty bucket BUCKET; yields the environment of its clients."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**os.environ, "MOTO_IAM_LOAD_MANAGED_POLICIES": ""})
    try:
        _wait_for(port)
        environment = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests",
                       "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
        import s3fs

        s3fs.S3FileSystem(key="tests", secret="tests", endpoint_url=environment["AWS_ENDPOINT_URL"],
                          skip_instance_cache=True).mkdir(BUCKET)
        yield environment
    finally:
        server.kill()
        server.wait()


@contextlib.contextmanager
def busy_server(behind: str, faults: list[int], requests: list[str] | None = None) -> Iterator[str]:
    """The URL of a server in front of `behind`: it answers requests with the HTTP status of each fault, then passes on.

    A status of 0 breaks the connection without an answer. Requests are noted as "METHOD path" in `requests`.
    """

    class Busy(Handler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.body()
            if requests is not None:
                requests.append(f"{self.command} {self.path}")
            fault = faults.pop(0) if faults else None
            if fault == 0:
                self.close_connection = True
            elif fault:
                self.reply(fault)
            else:
                self._pass_on(body)

        do_PUT = do_POST = do_DELETE = do_HEAD = do_GET

        def _pass_on(self, body: bytes) -> None:
            connection = http.client.HTTPConnection(urlsplit(behind).netloc)
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            data = answer.read()
            named = {n: v for n in ("ETag", "Last-Modified", "Content-Length") if (v := answer.getheader(n))}
            self.reply(answer.status, data, named)

    with serving(Busy) as url:
        yield url


def _wait_for(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        time.sleep(0.1)
    raise TimeoutError("the S3 server did not start")
