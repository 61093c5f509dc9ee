"""`argosy serve` as a process, and OpenAI's own client of it."""

import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai

from argosy.core.step.machine import free_port
from argosy.model.infer.model import LanguageModel
from tests.command_line import ARGOSY
from tests.warm import Popen

KEY = "0123456789abcdef-right"


@dataclass
class Serving:
    """A server's process, and clients of it."""

    url: str
    process: Popen

    @property
    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=KEY, max_retries=0, timeout=60)

    @property
    def others(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key=KEY, max_retries=0, timeout=120)

    def metrics(self) -> dict[str, float]:
        lines = urllib.request.urlopen(f"{self.url}/metrics").read().decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


@contextmanager
def serve(folder: Path, *arguments: object, seconds: int = 60) -> Iterator[Serving]:
    """Run the command; `folder`: where it stands; `seconds`: of its start."""
    (folder / "keys").write_text(f"# who key\nme {KEY}\n")
    port = free_port()
    command = [*ARGOSY, "serve", *map(str, arguments), "--port", str(port), "--keys", "keys"]
    with (folder / "log").open("wb") as log:
        serving = Serving(f"http://127.0.0.1:{port}", Popen(command, cwd=folder, stdout=log))
    try:
        for _ in range(10 * seconds):
            try:
                urllib.request.urlopen(f"{serving.url}/health")
                break
            except OSError:
                assert serving.process.poll() is None, (folder / "log").read_text()
                time.sleep(0.1)
        yield serving
    finally:
        serving.process.kill()


def generated(model: LanguageModel, chat: list[dict[str, Any]], tokens: int) -> str:
    [ids] = model.generate_tokens([model.render(chat)], model.ends(chat=True), tokens)
    return model.decode(ids)
