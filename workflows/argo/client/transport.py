"""Requests to the Kubernetes API and the Argo server: JSON in, JSON out, errors that people understand."""

import contextlib
import json
import urllib.parse
import warnings
from collections.abc import Iterator, Mapping
from typing import IO, Any

from argosy.core.errors import ArgosyError

TIMEOUT_S = 30.0
Json = dict[str, Any]
_MOST = 1000  # characters of an answer that an error shows
_HINTS = {401: "; give a token that is valid (ARGO_TOKEN), or log in again with the kubeconfig's tool",
          403: "; ask for the right, or use another --context or token"}  # fmt: skip
_FAILURES = {"CERTIFICATE_VERIFY_FAILED": "; with --insecure its certificate is not checked",
             "WRONG_VERSION_NUMBER": "; it speaks plain http: give its URL with http://",
             "record layer": "; it speaks plain http: give its URL with http://",
             "RemoteDisconnected": "; does it speak https?", "BadStatusLine": "; does it speak https?"}  # fmt: skip


class ApiError(ArgosyError):
    """An API refused, or did not answer: `status` is the HTTP status, 0 where no answer came.

    `passing`: worth another attempt, as it is the API's trouble and not the request's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.passing = status in (0, 429) or status >= 500
        self.exit_code = 1 if self.passing else 2


class Transport:
    """One API: `settings` (a kubernetes.client.Configuration) has its address, credentials and proxies.

    Attributes:
        where: what errors call it."""

    def __init__(self, settings: Any, where: str) -> None:
        from kubernetes import client  # here, since it takes a second
        from urllib3.exceptions import InsecureRequestWarning

        if not settings.verify_ssl:  # as --insecure asks
            warnings.simplefilter("ignore", InsecureRequestWarning)
        settings.retries = False  # whoever asks tries again
        self._api, self.where = client.ApiClient(settings), where

    @contextlib.contextmanager
    def open(
        self, path: str, query: Mapping[str, str] | None = None, *, method: str = "GET", body: Json | None = None,
        headers: Mapping[str, str] | None = None, timeout: float | None = TIMEOUT_S,
    ) -> Iterator[tuple[Mapping[str, str], IO[bytes]]]:
        """Open a request; yield the answer's headers and its body as it arrives. Raises ApiError."""
        import urllib3
        from kubernetes.client import ApiException

        path = path + ("?" + urllib.parse.urlencode(query) if query else "")
        try:
            answer = self._api.call_api(
                path, method, body=body, header_params=dict(headers or {}), auth_settings=["BearerToken"],
                _preload_content=False, _request_timeout=(10.0, timeout) if timeout else None,
            )  # fmt: skip
            try:
                yield answer.headers, answer
            finally:
                answer.close()
        except ApiException as error:
            if not error.status:
                raise self._no_answer(error.reason) from None
            raise self.refusal(path, error.status, (error.body or error.reason or "").encode()) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._no_answer(error) from None

    def ask(
        self, method: str, path: str, body: Json | None = None, *, query: Mapping[str, str] | None = None,
        kind: str = "application/json", accept: str = "application/json",
    ) -> Json:
        """Return a JSON answer. `kind` is the body's content type. Raises ApiError."""
        headers = {"Content-Type": kind, "Accept": accept}
        with self.open(path, query, method=method, body=body, headers=headers) as (_, answer):
            text = answer.read()
        try:
            found = json.loads(text or b"{}")
        except ValueError:
            raise self.foreign(path, "no JSON") from None
        return found if isinstance(found, dict) else {"items": found}

    def stream(self, path: str, query: Mapping[str, str] | None = None, *, follow: bool = False) -> Iterator[bytes]:
        """Yield lines of an answer as they come, with `follow` however long none comes. Raises ApiError."""
        with self.open(path, query, timeout=None if follow else TIMEOUT_S) as (_, answer):
            yield from answer

    def foreign(self, path: str, gave: str) -> ApiError:
        """Make the error that the server `gave` something at `path` that the expected one would not."""
        return ApiError(400, f"{self.where} gave {gave} at {path}: is it the right address?")

    def refusal(self, path: str, status: int, answer: bytes) -> ApiError:
        """Make the error for an HTTP status of an error."""
        text = answer.decode(errors="replace").strip()
        with contextlib.suppress(ValueError, AttributeError):
            text = json.loads(text).get("message") or text
        return ApiError(status, f"{self.where} refused ({status}): {text[:_MOST]}{_HINTS.get(status, '')}")

    def _no_answer(self, error: object) -> ApiError:
        hint = next((hint for sign, hint in _FAILURES.items() if sign in f"{error} {error!r}"), "")
        return ApiError(0, f"{self.where} does not answer: {error}{hint}")
