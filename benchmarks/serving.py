"""Requests to one checkpoint: `argosy serve` beside transformers' own server (`transformers serve`).

python -m benchmarks.serving MODEL [--clients 8]

Both serve the same model, which has a chat template, on two threads, one server at a time, in turns.
Clients ask chat completions at once, each the next one as soon as it has its answer: streamed, greedy, with a limit of
tokens. The texts have to be equal, but for 1 in 20 at most, after near ties. The last line is JSON; `ratio` is our
requests a second over theirs, `first_token_ratio` their median time to the first token over ours."""

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from argosy.core.errors import StepError
from argosy.core.step.machine import free_port
from benchmarks.side_by_side import THREADS, environment

EQUAL = 0.95
WORDS = ("river", "north", "stone", "market", "salt", "early", "number", "bridge", "window", "paper", "the", "of", "to")
OURS = "import sys; from workflows.cli import main; sys.exit(main())"


class Answer(NamedTuple):
    """A text, seconds to its first token, and to its end."""

    text: str
    first: float
    whole: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.serving", description=__doc__)
    parser.add_argument("--requests", type=int, default=48, help="requests in each turn")
    parser.add_argument("--clients", type=int, default=8, help="clients at once")
    parser.add_argument("--tokens", type=int, default=48, help="limit of an answer")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each server")
    parser.add_argument("model", type=Path, help="a model in float32 with a chat template, as transformers loads it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), args)))


def measure(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """The figures."""
    model = args.model.absolute()
    rates: dict[str, list[float]] = {"ours": [], "theirs": []}
    first: dict[str, list[float]] = {"ours": [], "theirs": []}
    pairs: list[tuple[str, str]] = []
    for turn in range(args.rounds):
        texts = {}
        for name in ("ours", "theirs") if turn % 2 == 0 else ("theirs", "ours"):
            with serving(name, model, folder) as url:
                asyncio.run(ask_all(url, str(model), chats(999)[:1], 1, 2))  # it loads at the first request
                begun = time.monotonic()
                answers = asyncio.run(ask_all(url, str(model), chats(turn)[: args.requests], args.clients, args.tokens))
                rates[name].append(len(answers) / (time.monotonic() - begun))
            first[name] += [answer.first for answer in answers]
            texts[name] = [answer.text for answer in answers]
        pairs += zip(texts["ours"], texts["theirs"], strict=True)
    equal = sum(one == other for one, other in pairs) / len(pairs)
    if equal < EQUAL:
        other = next(pair for pair in pairs if pair[0] != pair[1])
        raise StepError(f"only {equal:.0%} of the texts are equal: {other}")
    median = {name: statistics.median(values) for name, values in first.items()}
    return {"name": "serving", "unit": "requests/s", "ours": round(statistics.mean(rates["ours"]), 2),
            "theirs": round(statistics.mean(rates["theirs"]), 2),
            "ratio": round(statistics.mean(rates["ours"]) / statistics.mean(rates["theirs"]), 2),
            "first_token_ratio": round(median["theirs"] / median["ours"], 2),
            "first_token_s": {name: round(value, 3) for name, value in median.items()},
            "clients": args.clients, "equal_texts": round(equal, 3)}  # fmt: skip


def chats(seed: int) -> list[list[dict[str, str]]]:
    """Conversations of one turn, some short, some long."""
    rng = Random(seed)
    return [[{"role": "user", "content": f"{n} " + " ".join(rng.choices(WORDS, k=rng.choice((6, 20, 60))))}]
            for n in range(256)]


async def ask_all(url: str, model: str, asked: Sequence[Any], clients: int, tokens: int) -> list[Answer]:
    """Ask all, so many at once."""
    import openai

    gate = asyncio.Semaphore(clients)

    async def ask(chat: Any) -> Answer:
        async with gate:
            begun, first, text = time.monotonic(), 0.0, ""
            stream = await client.chat.completions.create(model=model, messages=chat, temperature=0, max_tokens=tokens,
                                                          stream=True)
            async for part in stream:
                new = part.choices[0].delta.content if part.choices else None
                first = first or (time.monotonic() - begun if new else 0.0)
                text += new or ""
            return Answer(text, first, time.monotonic() - begun)

    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=600) as client:
        return await asyncio.gather(*map(ask, asked))


@contextmanager
def serving(name: str, model: Path, folder: Path) -> Iterator[str]:
    """Run one of the servers; yields its address."""
    port = free_port()
    ours = [sys.executable, "-c", OURS, "serve", str(model), "--port", str(port)]
    theirs = [str(Path(sys.executable).parent / "transformers"), "serve", str(model), "--device", "cpu", "--dtype",
              "auto", "--port", str(port), "--host", "127.0.0.1"]
    if not shutil.which(theirs[0]):
        raise StepError("transformers serve is not installed: its extra `serving` needs openai, fastapi and uvicorn")
    variables = {**os.environ, **environment(name, THREADS)}
    with (folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(ours if name == "ours" else theirs, stdout=log, stderr=log, env=variables)
    try:
        _wait(f"http://127.0.0.1:{port}/health", process, folder / f"{name}.log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _wait(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    while process.poll() is None:
        try:
            urllib.request.urlopen(url)
            return
        except OSError:
            time.sleep(0.2)
    raise StepError(f"it did not start: {log.read_text()[-2000:]}")


if __name__ == "__main__":
    main()
