"""A judge behind a URL that speaks OpenAI's chat completions: OpenAI, vLLM, llama.cpp, Ollama and others."""

from __future__ import annotations

import json
import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from argosy.errors import InputError
from argosy.judging.comparison import Comparison, Preference, Save
from argosy.judging.wording import question, read_verdict

_WRONG = {400: "the server refuses the request", 401: "the key is refused", 403: "the key may not use this model",
          404: "there is no such address or model"}  # fmt: skip


@dataclass(frozen=True)
class ChatApiJudge:
    """Asks a server.

    Attributes:
        url: up to and with `/v1`; `/chat/completions` is added.
        key: sent as bearer token; "" sends none.
        parallel: requests at a time.
        attempts: of one request that meets a server that is busy (429), fails (5xx) or does not answer.
        max_tokens: of a reply; models that reason first need many.
    """

    url: str
    model: str
    key: str = ""
    parallel: int = 8
    attempts: int = 5
    max_tokens: int = 16
    timeout: float = 120.0  # seconds
    sleep: Callable[[float], None] = time.sleep

    @property
    def name(self) -> str:
        """Model and address."""
        return f"{self.model} at {self.url}"

    def prefer(self, comparisons: Sequence[Comparison], save: Save) -> None:
        """Ask for each, some at a time.

        Raises:
            InputError: the server will not answer any request: wrong address, key or model.
        """
        with ThreadPoolExecutor(self.parallel) as pool:
            asked = {pool.submit(self._ask, comparison): index for index, comparison in enumerate(comparisons)}
            try:
                for done in as_completed(asked):
                    save(asked[done], done.result())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _ask(self, comparison: Comparison) -> Preference:
        body = {"model": self.model, "temperature": 0, "max_tokens": self.max_tokens, "seed": 0,
                "messages": [{"role": "user", "content": question(comparison, writes=True)}]}  # fmt: skip
        for attempt in range(self.attempts):
            try:
                return _preference(self._post(body))
            except urllib.error.HTTPError as error:
                if error.code in _WRONG:
                    why = f"{_WRONG[error.code]} ({error.code}: {_said(error)})"
                    raise InputError(f"judge {self.name}: {why}") from None
                problem, wait = f"HTTP {error.code}", error.headers.get("Retry-After", "")
            except (OSError, HTTPException, ValueError) as error:  # no connection, cut off, or no JSON
                problem, wait = str(error) or type(error).__name__, ""
            if attempt + 1 < self.attempts:
                self.sleep(float(wait) if wait.isdigit() else min(60.0, 2.0**attempt) * random.uniform(0.5, 1.0))
        return Preference(None, f"the judge did not answer after {self.attempts} attempts ({problem})", may_pass=True)

    def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        address = f"{self.url.rstrip('/')}/chat/completions"
        request = urllib.request.Request(address, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=self.timeout) as reply:
            found: dict[str, Any] = json.load(reply)
        return found


def _preference(reply: dict[str, Any]) -> Preference:
    try:
        choice = reply["choices"][0]
        text = choice["message"]["content"] or ""
    except (KeyError, IndexError, TypeError):
        raise ValueError("the reply has no choices[0].message.content") from None
    verdict = read_verdict(text)
    if verdict is not None:
        return Preference(verdict)
    cut = " within its limit of tokens (judge_tokens)" if choice.get("finish_reason") == "length" else ""
    return Preference(None, f"the judge's reply names no answer{cut}")


def _said(error: urllib.error.HTTPError) -> str:
    text = error.read(2000).decode("utf-8", "replace")
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return " ".join(text.split())[:200]
