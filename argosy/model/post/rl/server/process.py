"""The process `vllm serve` of a step: its command, its environment, its log, its end."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from argosy.core.errors import InputError, StepError
from argosy.core.step.machine import GPUS, free_port, shown_gpus
from argosy.core.step.process import timestamp
from argosy.model.post.rl.config import ServerConfig
from argosy.model.post.rl.server import keeper
from argosy.model.post.rl.server.client import Client

_SHARED, _OWN = 0.4, 0.9  # of a GPU's memory, beside training and alone
_TAIL = 15  # lines of the log in an error
_OTHERS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
           "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT")  # fmt: skip
_FLAGS = ("--logprobs-mode", "processed_logprobs", "--generation-config", "vllm")


def check_installed(server: ServerConfig) -> None:
    """Refuse to start a server where its program is not there. Raises InputError, which says what to do."""
    if not server.url and not shutil.which(server.command):
        raise InputError(f"generation=vllm starts {server.command!r}, which is no program here: install vLLM in an "
                         "environment of its own (docs/install.md) and name its program in server.command, name a "
                         "running server in server.url, or take generation=transformers")


class ServerProcess:
    """A server that this step has started, with all of its processes.

    Args:
        model: directory of the weights that it starts with.
        length: tokens of the longest prompt with its answer.
        log: file that its output is appended to."""

    def __init__(self, server: ServerConfig, model: Path, dtype: str, length: int, log: Path) -> None:
        port = free_port()
        self.url, self._log, self._server = f"http://127.0.0.1:{port}", log, server
        memory = server.memory or (_OWN if server.gpus else _SHARED)
        command = [server.command, "serve", str(model), "--host", "127.0.0.1", "--port", str(port),
                   "--served-model-name", "policy", "--dtype", dtype, "--max-model-len", str(length),
                   "--tensor-parallel-size", str(max(1, server.gpus)), "--gpu-memory-utilization", f"{memory:g}",
                   "--uvicorn-log-level", "warning", *_FLAGS, *server.arguments]  # fmt: skip
        with log.open("a") as output:
            output.write(f"{timestamp()} {' '.join(command)}\n")
            output.flush()
            self._begin = output.tell()
            self._keeper = subprocess.Popen(
                [sys.executable, keeper.__file__, *command], stdin=subprocess.PIPE, stdout=output, stderr=output,
                env=_environment(os.environ, server.gpus), start_new_session=True)  # fmt: skip

    def wait(self, client: Client) -> None:
        """Wait until it answers. Raises StepError: it ended, or does not answer in time; with its last lines."""
        deadline = time.monotonic() + self._server.start_seconds
        while not client.healthy():
            if time.monotonic() > deadline:
                raise StepError(f"vLLM did not answer within {self._server.start_seconds:g} s of its start "
                                f"(server.start_seconds); {self.said()}")
            if self._keeper.poll() is not None:
                raise StepError(f"vLLM did not start; {self.said()}")
            time.sleep(0.1)

    def said(self) -> str:
        """Say how it is, and the last lines of its log."""
        code = self._keeper.poll()
        state = "it is running" if code is None else f"it ended with exit code {code}"
        with suppress(OSError):
            text = self._log.read_bytes()[self._begin :].decode("utf-8", "replace")
            if lines := text.strip().splitlines()[-_TAIL:]:
                return "\n  ".join([f"{state}; {self._log} ends with:", *lines])
        return f"{state}, and {self._log} is empty"

    def close(self) -> None:
        """End it, with all of its processes."""
        if self._keeper.stdin:
            self._keeper.stdin.close()
        try:
            self._keeper.wait(keeper.GRACE_S + 5)
        except subprocess.TimeoutExpired:
            self._keeper.kill()


def _environment(own: Mapping[str, str], gpus: int) -> dict[str, str]:
    """Return the server's environment: not that of a rank of torch, with the endpoints for weights, without reports to
    anybody, and with the GPUs that are its own: the last ones, else the first, which it shares."""
    environment = {name: value for name, value in own.items()
                   if name not in _OTHERS and not name.startswith(("TORCHELASTIC_", "ARGOSY_"))}
    environment |= {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
                    "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    there = shown_gpus()
    if gpus > max(0, len(there) - 1):
        raise InputError(f"server.gpus is {gpus}, and this step sees {len(there)}, of which training needs one: lower "
                         "it (0 shares a GPU with training), or raise resources.STAGE.gpus")
    if there:
        environment[GPUS] = ",".join(there[-gpus:] if gpus else there[:1])
    return environment
