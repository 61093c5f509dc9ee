"""`argosy serve` as a process, asked by OpenAI's own client: the texts of `generate`, many clients at once, clients
that hang up, refusals, and an end with requests in flight."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from argosy.core.step.machine import free_port
from argosy.model.infer.model import LanguageModel
from argosy.model.weights.checkpoint import find_checkpoint
from steps import data
from tests.evaluation_fixtures import make_model, make_tokenizer
from tests.processes import until
from tests.serving import KEY, Serving, generated, serve
from tests.training_fixtures import run_here
from workflows.cli import main

POSITIONS = 1024
CHATS = [[{"role": "user", "content": f"What is number {n}?" + " the Nile" * (n % 7)}] for n in range(50)]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two checkpoints, a and b."""
    folder = tmp_path_factory.mktemp("served")
    tokenizer = make_tokenizer()
    for number, name in enumerate("ab"):
        make_model(len(tokenizer), POSITIONS, initializer_range=0.02 + number / 50).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder


@pytest.fixture(scope="module")
def serving(models: Path) -> Iterator[Serving]:
    with serve(models, "./a", "./b", "--votes", "votes", "--max-tokens", 900) as found:
        yield found


@pytest.fixture(scope="module")
def model(models: Path) -> LanguageModel:
    return LanguageModel.load(find_checkpoint(models / "a"))


def test_answers_are_those_of_generate_whole_and_streamed(serving: Serving, model: LanguageModel) -> None:
    client = serving.client
    assert [each.id for each in client.models.list()] == ["./a", "./b"]
    whole = client.chat.completions.create(model="./a", messages=CHATS[3], temperature=0, max_tokens=40)
    assert whole.choices[0].message.content == generated(model, CHATS[3], 40) != ""
    assert whole.choices[0].finish_reason in ("stop", "length")
    assert whole.usage.prompt_tokens == len(model.encode([model.render(CHATS[3])])[0])
    parts = list(client.chat.completions.create(model="./a", messages=CHATS[3], temperature=0, max_tokens=40,
                                                stream=True, stream_options={"include_usage": True}))
    said = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert said == whole.choices[0].message.content
    assert len(parts) > 10
    assert parts[-1].usage == whole.usage
    text = client.completions.create(model="./a", prompt=["river", "the Nile"], temperature=0, max_tokens=24)
    assert [choice.text for choice in text.choices] == model.generate(["river", "the Nile"], max_tokens=24)


def test_log_probabilities_are_those_that_the_scorer_gives(serving: Serving, model: LanguageModel) -> None:
    found = serving.client.completions.create(model="./a", prompt="river", temperature=0, max_tokens=8, logprobs=3)
    logprobs = found.choices[0].logprobs
    [prompt], [answer] = model.encode(["river"]), model.generate_tokens(["river"], [], 8)
    scores = [score.logprob for score in model.scorer.score([((*prompt, *answer[:at]), (token,))
                                                             for at, token in enumerate(answer)])]
    assert logprobs.token_logprobs == pytest.approx(scores, abs=1e-4)
    assert [max(top.values()) for top in logprobs.top_logprobs] == pytest.approx(scores, abs=1e-4)
    chat = serving.client.chat.completions.create(model="./a", messages=CHATS[0], temperature=0, max_tokens=5,
                                                  logprobs=True, top_logprobs=2)
    content = chat.choices[0].logprobs.content
    said = bytes(byte for token in content for byte in token.bytes).decode("utf-8", "replace")
    assert said == chat.choices[0].message.content
    assert all(len(token.top_logprobs) == 2 for token in content)


def test_a_seed_decides_a_sampled_answer_and_each_of_several(serving: Serving) -> None:
    def ask(**fields: Any) -> list[str]:
        found = serving.client.completions.create(model="./a", prompt="river", temperature=1.2, max_tokens=12, **fields)
        return [choice.text for choice in found.choices]

    assert ask(seed=5, n=3) == ask(seed=5, n=3)
    assert len(set(ask(seed=5, n=3))) == 3
    assert ask(seed=6) == ask(seed=5, n=2)[1:]


def test_fifty_clients_at_once_get_their_own_answers(serving: Serving, model: LanguageModel) -> None:
    async def ask(number: int) -> str:
        found = await serving.others.chat.completions.create(
            model="./a", messages=CHATS[number], temperature=0, max_tokens=20 + number, stream=number % 2 == 0)
        if number % 2:
            return str(found.choices[0].message.content)
        return "".join([part.choices[0].delta.content or "" async for part in found if part.choices])

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*map(ask, range(50)))

    assert asyncio.run(all_of_them()) == [generated(model, chat, 20 + n) for n, chat in enumerate(CHATS)]


def test_a_client_that_hangs_up_frees_its_place(serving: Serving) -> None:
    stream = serving.client.completions.create(model="./b", prompt="river", temperature=1.5, max_tokens=900,
                                               stream=True, seed=1)
    next(iter(stream))
    assert serving.metrics()['argosy_running{model="./b"}'] == 1
    stream.close()
    with pytest.raises(openai.APITimeoutError):  # one that waits for the whole
        serving.client.with_options(timeout=0.3).completions.create(model="./b", prompt="a", temperature=1.5,
                                                                    max_tokens=900, n=2, seed=7)  # 353, 900
    for _ in range(50):
        if not serving.metrics()['argosy_running{model="./b"}']:
            break
        time.sleep(0.1)
    assert serving.metrics()['argosy_running{model="./b"}'] == 0
    assert serving.metrics()['argosy_answer_tokens_total{model="./b"}'] < 1500  # of 648 + 353 + 900


@pytest.mark.parametrize(("fields", "status", "says"), [
    ({"model": "c"}, 404, "there are: ./a, ./b"),
    ({"max_tokens": 1200}, 400, "the context has 1024 tokens, and the prompt"),
    ({"max_tokens": 950}, 400, "allowed here: 1 to 900"),
    ({"messages": [{"role": "user", "content": "a " * 3000}]}, 400, "shorten the prompt"),
    ({"temperature": -1}, 400, "temperature"),
    ({"presence_penalty": 0.5}, 400, "presence_penalty: only 0 is offered here"),
    ({"extra_body": {"colour": 1}}, 400, "colour: is not known here; allowed: model"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, 400,
     "messages[0].content has a part of type 'image_url'"),
    ({"top_logprobs": 2}, 400, "top_logprobs needs logprobs"),
])  # fmt: skip
def test_what_cannot_be_done_is_refused_with_the_reason(serving: Serving, fields: dict[str, Any], status: int,
                                                        says: str) -> None:
    given = {"model": "./a", "messages": CHATS[0], "max_tokens": 4, **fields}
    with pytest.raises(openai.APIStatusError) as refused:
        serving.client.chat.completions.create(**given)
    assert refused.value.status_code == status
    assert says in refused.value.message


@pytest.mark.parametrize("body", [b'{"model": "./a", "prompt": "\\ud800"}', b"[" * 100_000, b"{"])
def test_a_body_that_is_no_text_is_refused(serving: Serving, body: bytes) -> None:
    request = urllib.request.Request(f"{serving.url}/v1/completions", body, {"Authorization": f"Bearer {KEY}"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    assert refused.value.code == 400
    assert "the request is no JSON" in json.load(refused.value)["error"]["message"]


def test_a_wrong_key_is_refused_and_the_page_and_health_need_none(serving: Serving) -> None:
    for key in ("wrong", KEY + "x", KEY[:-1]):
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=f"{serving.url}/v1", api_key=key, max_retries=0).models.list()
    assert b"<!doctype html>" in urllib.request.urlopen(serving.url).read()
    assert json.load(urllib.request.urlopen(f"{serving.url}/health"))["status"] == "ok"


def test_a_vote_becomes_a_pair_that_the_data_step_reads(serving: Serving, models: Path, tmp_path: Path) -> None:
    def post(path: str, body: Any) -> Any:
        request = urllib.request.Request(f"{serving.url}/v1/{path}", json.dumps(body).encode(),
                                         {"Authorization": f"Bearer {KEY}"})
        return json.load(urllib.request.urlopen(request))

    for number in range(24):
        pair = post("pairs", {})
        chat = [{"role": "user", "content": f"Where does river number {number} end, and why there?"}]
        sides = {side: serving.client.chat.completions.create(model=pair[side], messages=chat, temperature=1.0,
                                                              max_tokens=20, seed=number) for side in ("left", "right")}
        assert {each.model for each in sides.values()} == {pair["left"], pair["right"]}  # no names yet
        texts = {side: each.choices[0].message.content for side, each in sides.items()}
        was = post("votes", {"id": pair["id"], "winner": "left" if number else "tie", "messages": chat, **texts})
        assert {was["left"], was["right"]} == {"./a", "./b"}
    with pytest.raises(urllib.error.HTTPError):  # the same vote again
        post("votes", {"id": pair["id"], "winner": "left", "messages": chat, **texts})
    records = [json.loads(line) for line in (models / "votes/preferences.jsonl").read_text().splitlines()]
    assert len(records) == 23
    assert records[-1]["chosen"] == [{"role": "assistant", "content": texts["left"]}]
    assert records[-1]["vote"]["left"]["model"] == was["left"]
    assert len((models / "votes/undecided.jsonl").read_text().splitlines()) == 1
    run_here(data, tmp_path / "data", preferences=str(models / "votes/preferences.jsonl"))
    kept = [json.loads(line) for name in ("preferences", "preferences_heldout")
            for line in (tmp_path / f"data/{name}.jsonl").read_text().splitlines()]
    assert {record["chosen"][0]["content"] for record in kept} <= {record["chosen"][0]["content"] for record in records}
    assert len(kept) > 15


def test_requests_in_flight_are_answered_before_the_end(models: Path, model: LanguageModel) -> None:
    with serve(models, "./a", "--at-once", 4) as serving:
        def arrived() -> float:
            return sum(value for name, value in serving.metrics().items()
                       if "waiting" in name or ("requests_total" in name and "chat" in name))

        async def asked() -> list[str]:
            tasks = [asyncio.create_task(one(number)) for number in range(8)]
            while (await asyncio.to_thread(arrived)) < 8:
                await asyncio.sleep(0.05)
            serving.process.send_signal(signal.SIGTERM)
            return await asyncio.gather(*tasks)

        async def one(number: int) -> str:
            found = await serving.others.chat.completions.create(model="./a", messages=CHATS[number], temperature=0,
                                                                 max_tokens=200, stream=True)
            return "".join([part.choices[0].delta.content or "" async for part in found if part.choices])

        assert asyncio.run(asked()) == [generated(model, chat, 200) for chat in CHATS[:8]]
        assert serving.process.wait(20) == 0
        with pytest.raises(openai.APIConnectionError):
            serving.client.models.list()


def test_a_server_that_lingers_answers_and_closes_each_connection(models: Path) -> None:
    with serve(models, "line=./a", "--linger", 5) as serving:
        serving.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{serving.url}/health")
        found = serving.client.completions.with_raw_response.create(model="line", prompt="river", max_tokens=4)
        assert found.headers["connection"] == "close"
        assert found.parse().usage.completion_tokens == 4
        assert serving.process.wait(20) == 0


def test_more_requests_than_may_wait_are_told_to_come_again(models: Path) -> None:
    with serve(models, "./a", "--at-once", 1, "--queue", 1) as serving:
        async def one(number: int) -> int:
            try:
                await serving.others.completions.create(model="./a", prompt="river", temperature=1.5, max_tokens=200,
                                                        seed=number)
            except openai.RateLimitError as error:
                return int(error.status_code) if error.response.headers["Retry-After"] else 0
            return 200

        async def all_of_them() -> list[int]:
            return await asyncio.gather(*map(one, range(8)))

        found = asyncio.run(all_of_them())
        assert 2 <= found.count(200) < 8
        assert set(found) == {200, 429}


STAND_IN = """
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
given = dict(zip(sys.argv[3::2], sys.argv[4::2]))

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert body["model"] == given["--served-model-name"]
        self.send_response(200); self.send_header("Content-Type", "text/event-stream"); self.end_headers()
        for word in body["messages"][0]["content"].split():
            chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": body["model"],
                     "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]}
            self.wfile.write(f"data: {json.dumps(chunk)}\\n\\n".encode())
        self.wfile.write(b"data: [DONE]\\n\\n")

    def log_message(self, *_): ...

ThreadingHTTPServer(("127.0.0.1", int(given["--port"])), Handler).serve_forever()
"""


def test_limits_that_another_engine_would_not_keep_are_refused(models: Path,
                                                                  capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(models / "a"), "--engine", "vllm", "--queue", "0", "--max-tokens", "9"]) == 2
    says = "--max-tokens, --queue: vllm has limits of its own; give them with --engine-arguments"
    assert says in capsys.readouterr().err


def test_another_engine_gets_the_requests_and_ends_with_the_server(models: Path) -> None:
    """With a stand-in of vLLM's command line and protocol."""
    program = models / "vllm"
    program.write_text(f"#!{sys.executable}\n{STAND_IN}")
    program.chmod(0o755)
    with serve(models, "./a", "--engine", "vllm", "--engine-command", program) as serving:
        parts = serving.client.chat.completions.create(model="./a", messages=[{"role": "user", "content": "x y z"}],
                                                       stream=True)
        assert [part.choices[0].delta.content for part in parts] == ["x", "y", "z"]
        serving.process.kill()  # even so
    until(lambda: subprocess.run(["pgrep", "-f", str(program)], check=False, capture_output=True).stdout == b"")


def test_an_engine_that_does_not_start_says_why(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = models / "broken"
    program.write_text("#!/bin/sh\necho no kernel image; exit 3\n")
    program.chmod(0o755)
    assert main(["serve", str(models / "a"), "--port", str(free_port()), "--store", str(models), "--engine", "vllm",
                 "--engine-command", str(program)]) == 1
    assert re.search(r"broken did not start; it ended with exit code 3.*\n +no kernel image", capsys.readouterr().err)
