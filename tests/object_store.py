"""An S3 server of this machine, as a process."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

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


def _wait_for(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        time.sleep(0.1)
    raise TimeoutError("the S3 server did not start")
