"""A server that speaks OpenAI's chat completions (OpenAI, vLLM, llama.cpp): many requests at a time, with retries."""

import json
import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from http.client import HTTPException
from itertools import islice
from typing import Any

from argosy.core.errors import InputError

_WRONG = {400: "the server refuses the request", 401: "the key is refused", 403: "the key may not use this model",
          404: "there is no such address or model"}  # fmt: skip


@dataclass(frozen=True)
class Reply:
    """Reply to a request, or why there is none."""

    text: str | None
    """the assistant's words; None: there is no reply"""
    cut: bool = False
    """whether the words end at the limit of tokens"""
    tokens: int = 0
    """tokens of request and reply, as the server counts them; 0 where it does not"""
    problem: str = ""
    """why there is no reply"""
    refused: bool = False
    """whether the server would refuse the request again"""


@dataclass(frozen=True)
class ChatApi:
    """A model that a server runs."""

    url: str
    """up to and with `/v1`; `/chat/completions` is added"""
    model: str
    key: str = ""
    """sent as bearer token; "" sends none"""
    parallel: int = 8
    """requests at a time"""
    attempts: int = 5
    """attempts of one request that meets a server that is busy (429), fails (5xx) or does not answer"""
    timeout: float = 120.0
    """seconds"""
    choosy: bool = False
    """whether it may refuse one request (400: too long, against its rules) and answer others; else that is wrong
    input"""
    sleep: Callable[[float], None] = time.sleep

    @property
    def name(self) -> str:
        return f"{self.model} at {self.url}"

    def request_all(self, requests: Sequence[Mapping[str, Any]], save: Callable[[int, Reply], None],
                    enough: Callable[[], bool] = lambda: False) -> None:
        """Send requests (messages and settings), some at a time; call `save(index, reply)` as each reply comes, in any
        order. Another is sent when a reply is saved, and none once `enough` is true.

        Raises InputError: the server will not answer any request: wrong address, key or model."""
        ahead = iter(enumerate(requests))
        with ThreadPoolExecutor(self.parallel) as pool:
            sent = {pool.submit(self.request, each): index for index, each in islice(ahead, self.parallel)}
            try:
                while sent:
                    for done in wait(sent, return_when=FIRST_COMPLETED).done:
                        save(sent.pop(done), done.result())
                        more = islice(ahead, 0 if enough() else 1)
                        sent |= {pool.submit(self.request, each): index for index, each in more}
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def request(self, given: Mapping[str, Any]) -> Reply:
        """Send one request, again where the server fails. Raises InputError: the server refuses it."""
        problem = ""
        for attempt in range(self.attempts):
            try:
                return _read(self._post({"model": self.model, **given}))
            except urllib.error.HTTPError as error:
                if error.code in _WRONG:
                    why = f"{_WRONG[error.code]} ({error.code}: {_message(error)})"
                    if error.code == 400 and self.choosy:
                        return Reply(None, problem=why, refused=True)
                    raise InputError(f"{self.name}: {why}") from None
                problem, pause = f"HTTP {error.code}", error.headers.get("Retry-After", "")
            except (OSError, HTTPException, ValueError) as error:  # no connection, cut off, or no JSON
                problem, pause = str(error) or type(error).__name__, ""
            if attempt + 1 < self.attempts:
                self.sleep(float(pause) if pause.isdigit() else min(60.0, 2.0**attempt) * random.uniform(0.5, 1.0))
        return Reply(None, problem=f"did not answer after {self.attempts} attempts ({problem})")

    def _post(self, body: Mapping[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        address = f"{self.url.rstrip('/')}/chat/completions"
        request = urllib.request.Request(address, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=self.timeout) as reply:
            found: dict[str, Any] = json.load(reply)
        return found


def _read(reply: dict[str, Any]) -> Reply:
    try:
        choice = reply["choices"][0]
        text = choice["message"]["content"] or ""
    except (KeyError, IndexError, TypeError):
        raise ValueError("the reply has no choices[0].message.content") from None
    used = reply.get("usage")
    tokens = used.get("total_tokens") if isinstance(used, dict) else 0
    return Reply(text, choice.get("finish_reason") == "length", tokens if isinstance(tokens, int) else 0)


def _message(error: urllib.error.HTTPError) -> str:
    text = error.read(2000).decode("utf-8", "replace")
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return " ".join(text.split())[:200]
