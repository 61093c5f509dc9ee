"""The server: keys, models by name, health and metrics, the chat page and its votes."""

import hmac
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from argosy.model.serve.form import Stream
from argosy.model.serve.metrics import Metrics
from argosy.model.serve.protocol import Refusal
from argosy.model.serve.votes import Votes

PAGE = Path(__file__).parent / "chat.html"
_MOST_BYTES = 2**24  # of a request


class Model(Protocol):
    """A model that answers requests."""

    name: str

    @property
    def alive(self) -> bool: ...
    def gauges(self) -> list[tuple[str, float, dict[str, str]]]: ...
    async def end(self) -> None: ...
    async def handle(self, path: str, body: Any, request: Request) -> Response: ...


class Server:
    """Models behind one address.

    Args:
        keys: those that requests may have, by the name of who has one; none: every request is answered.
        votes: where votes of the chat page are kept; None: it takes none."""

    def __init__(self, models: Sequence[Model], metrics: Metrics, keys: Mapping[str, str] | None = None,
                 votes: Votes | None = None) -> None:
        self.models = {model.name: model for model in models}
        self.metrics, self.votes = metrics, votes
        self._keys = dict(keys or {})
        self.draining = False
        self._begun = int(time.time())

    def app(self) -> Starlette:
        """The application, for uvicorn."""
        # Without keys a page of another site must not reach it by a name of its own that leads here (DNS rebinding).
        hosts = ["*"] if self._keys else ["127.0.0.1", "localhost", "["]  # the last one is [::1], cut at its colon
        guard = Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
        return Starlette(lifespan=self._life, middleware=[guard], routes=[
            Route("/", self._page), Route("/health", self._health), Route("/metrics", self._metrics),
            Route("/v1/models", self._guarded(self._list)),
            Route("/v1/chat/completions", self._guarded(self._answer("chat/completions")), methods=["POST"]),
            Route("/v1/completions", self._guarded(self._answer("completions")), methods=["POST"]),
            Route("/v1/pairs", self._guarded(self._pair), methods=["POST"]),
            Route("/v1/votes", self._guarded(self._vote), methods=["POST"]),
        ])  # fmt: skip

    @asynccontextmanager
    async def _life(self, app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            for model in self.models.values():
                await model.end()

    def _guarded(self, handle: Callable[[Request], Any]) -> Callable[[Request], Any]:
        """Check the key, count the request, and write refusals."""

        async def guarded(request: Request) -> Response:
            try:
                self._check_key(request)
                response: Response = await handle(request)
            except Refusal as error:
                response = JSONResponse(error.body, error.status, error.headers)
            except ClientDisconnect:
                response = Response(status_code=499)
            if self.draining or isinstance(response, Stream):  # which may end after the server stopped listening
                response.headers["Connection"] = "close"  # else a client may send its next request to nobody
            self.metrics.count("requests_total", path=request.url.path, status=str(response.status_code))
            return response

        return guarded

    def _check_key(self, request: Request) -> None:
        if not self._keys:
            return
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not any(hmac.compare_digest(key.encode(), own.encode())
                                                 for own in self._keys.values()):
            raise Refusal(401, "the key is missing or wrong: send 'Authorization: Bearer KEY'", "authentication_error",
                          code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})

    def _answer(self, path: str) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            body = await _body(request)
            name = body.get("model") if isinstance(body, dict) else None
            real = (self.votes.real(str(name)) if self.votes else None) or str(name)  # of a blind name of the chat page
            model = self.models.get(real)
            if model is None:
                raise Refusal(404, f"model is {name!r}; there are: {', '.join(self.models)}", field="model",
                              code="model_not_found")
            return await model.handle(path, body, request)

        return answer

    async def _list(self, request: Request) -> Response:
        about = {"object": "model", "created": self._begun, "owned_by": "argosy"}
        return JSONResponse({"object": "list", "data": [{"id": name, **about} for name in self.models]})

    async def _health(self, request: Request) -> Response:
        dead = [name for name, model in self.models.items() if not model.alive]
        if self.draining or dead:
            why = "the server is ending" if self.draining else f"does not answer: {', '.join(dead)}"
            return JSONResponse({"status": "unhealthy", "reason": why}, 503)
        return JSONResponse({"status": "ok", "models": list(self.models)})

    async def _metrics(self, request: Request) -> Response:
        return PlainTextResponse(self.metrics.text([gauge for model in self.models.values()
                                                    for gauge in model.gauges()]))

    async def _page(self, request: Request) -> Response:
        return HTMLResponse(PAGE.read_text(encoding="utf-8"), headers={"Cache-Control": "no-cache"})

    async def _pair(self, request: Request) -> Response:
        return JSONResponse(self._voting().pair(list(self.models)))

    async def _vote(self, request: Request) -> Response:
        return JSONResponse(self._voting().vote(await _body(request)))

    def _voting(self) -> Votes:
        if self.votes is None or len(self.models) < 2:
            raise Refusal(404, "votes need two models and a folder: argosy serve A B --votes DIR")
        return self.votes


async def _body(request: Request) -> Any:
    """Read a request's JSON. Raises Refusal: it is none, or too large."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > _MOST_BYTES:
            raise Refusal(413, f"a request may have {_MOST_BYTES} bytes")
        parts.append(part)
    try:
        body = json.loads(b"".join(parts))
        json.dumps(body, ensure_ascii=False).encode()  # half of a character, \ud800, is no text
        return body
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the request is no JSON: {error}") from None
