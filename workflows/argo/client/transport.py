"""Requests to the Kubernetes API and the Argo server: JSON in, JSON out, errors that people understand."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import IO, Any

from argosy.errors import ArgosyError, InputError

TIMEOUT_S = 30.0
Json = dict[str, Any]
_MOST = 1000  # characters of an answer that an error shows


class ApiError(ArgosyError):
    """An API refused, or did not answer: `status` is the HTTP status, 0 where no answer came.

    `passing`: worth another attempt, as it is the API's trouble and not the request's.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.passing = status in (0, 429) or status >= 500
        self.exit_code = 1 if self.passing else 2


class Transport(ABC):
    """One API and its address."""

    where: str
    """What errors call it."""

    @abstractmethod
    def open(
        self, method: str, path: str, query: Mapping[str, str], body: Json | None, headers: Mapping[str, str],
        timeout: float | None,
    ) -> contextlib.AbstractContextManager[tuple[Mapping[str, str], IO[bytes]]]:
        """Open a request; yield the answer's headers and its body as it arrives. Raises ApiError."""

    def ask(
        self, method: str, path: str, body: Json | None = None, *, query: Mapping[str, str] | None = None,
        kind: str = "application/json", accept: str = "application/json", timeout: float = TIMEOUT_S,
    ) -> Json:
        """Return a JSON answer. `kind` is the body's content type. Raises ApiError."""
        headers = {"Content-Type": kind, "Accept": accept}
        with self.open(method, path, query or {}, body, headers, timeout) as (_, answer):
            text = answer.read()
        try:
            found = json.loads(text or b"{}")
        except ValueError:
            raise self.foreign(path, "no JSON") from None
        return found if isinstance(found, dict) else {"items": found}

    def foreign(self, path: str, gave: str) -> ApiError:
        """Make the error that the server `gave` something at `path` that the expected one would not."""
        return ApiError(400, f"{self.where} gave {gave} at {path}: is it the right address?")

    def refusal(self, path: str, status: int, answer: bytes) -> ApiError:
        """Make the error for an HTTP status of an error."""
        return said_no(self.where, status, answer)

    def stream(
        self, path: str, query: Mapping[str, str] | None = None, *, follow: bool = False, silence_s: float | None = None
    ) -> Iterator[bytes]:
        """Yield lines of an answer as they come. Raises ApiError, with `follow` after `silence_s` without a byte."""
        with self.open("GET", path, query or {}, None, {}, silence_s if follow else TIMEOUT_S) as (_, answer):
            yield from answer

    def headers(self, path: str) -> Mapping[str, str]:
        """Return the headers of an answer. Raises ApiError."""
        with self.open("GET", path, {}, None, {"Accept": "application/json"}, TIMEOUT_S) as (headers, _):
            return headers


class HttpTransport(Transport):
    """An HTTP API that a bearer token opens, such as the Argo server's."""

    def __init__(self, url: str, token: str = "", *, insecure: bool = False, where: str = "") -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise InputError(f"the server is {url!r}, allowed: a URL such as https://argo.example.com")
        self.where = where or f"the server {url}"
        self._url = url.rstrip("/")
        self._headers = {"Authorization": _bearer(token)} if token else {}
        self._tls = ssl._create_unverified_context() if insecure else ssl.create_default_context()

    @contextlib.contextmanager
    def open(
        self, method: str, path: str, query: Mapping[str, str], body: Json | None, headers: Mapping[str, str],
        timeout: float | None,
    ) -> Iterator[tuple[Mapping[str, str], IO[bytes]]]:
        """Open a request; see Transport."""
        url = self._url + path + ("?" + urllib.parse.urlencode(query) if query else "")
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {**self._headers, **headers}, method=method)
        with errors_of(self.where):
            try:
                answer = urllib.request.urlopen(request, timeout=timeout, context=self._tls)
            except urllib.error.HTTPError as error:
                with error:
                    raise self.refusal(path, error.code, error.read()) from None
            with answer:
                yield dict(answer.headers), answer


@contextlib.contextmanager
def errors_of(where: str) -> Iterator[None]:
    """Turn connections that fail or break into ApiError."""
    try:
        yield
    except urllib.error.URLError as error:
        raise no_answer(where, error.reason) from None
    except (http.client.HTTPException, OSError) as error:
        raise no_answer(where, error) from None


def no_answer(where: str, error: object) -> ApiError:
    """Make the error that `where` could not be reached."""
    hint = ""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        hint = "; with --insecure its certificate is not checked"
    elif "WRONG_VERSION_NUMBER" in str(error) or "record layer" in str(error):
        hint = "; it speaks plain http: give its URL with http://"
    elif "RemoteDisconnected" in repr(error) or "BadStatusLine" in repr(error):
        hint = "; does it speak https?"
    return ApiError(0, f"{where} does not answer: {error}{hint}")


def said_no(where: str, status: int, answer: bytes) -> ApiError:
    """Make the error that `where` answered with an HTTP status of an error."""
    text = answer.decode(errors="replace").strip()
    with contextlib.suppress(ValueError, AttributeError):
        text = json.loads(text).get("message") or text
    hint = {
        401: "; give a token that is valid (ARGO_TOKEN), or log in again with the kubeconfig's tool",
        403: "; ask for the right, or use another --context or token",
    }.get(status, "")
    return ApiError(status, f"{where} refused ({status}): {text[:_MOST]}{hint}")


def _bearer(token: str) -> str:
    """Complete ARGO_TOKEN, which holds `Bearer ...`, as the Argo UI shows it, or the token alone."""
    return token if token.lower().startswith(("bearer ", "basic ")) else f"Bearer {token}"
