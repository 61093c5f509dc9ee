"""vLLM as a server of a step: its protocol, as releases 0.32 and 0.33 have it, and its command and environment.
Tokens in, tokens out, weights from a directory, their version:

| request | what it does |
|---|---|
| GET /health | 200: it answers |
| GET /server_info?config_format=json | its config, of which the log-probabilities' mode is read |
| POST /inference/v1/generate | an answer's tokens, log-probabilities, reason to end, and which weights sampled each |
| POST /pause?mode=wait, /resume | ends what runs, forgets its cache of prefixes; goes on |
| POST /collective_rpc (reload_weights) | loads the weights of a directory in place |
| POST /update_weight_version, GET /weight_info | the name of the weights, which each answer carries |

The third is there with --enable-scale-out, the others but the first where VLLM_SERVER_DEV_MODE is 1."""

import json
import math
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError, StepError
from argosy.core.step.machine import GPUS, free_port, shown_gpus
from argosy.model.infer.decode import Decoding
from argosy.model.infer.keeper import KeptServer
from argosy.model.post.rl import ServerConfig

_MODE = "processed_logprobs"  # after the temperature
_NO_NUMBER = -9999.0  # what it sends for a log-probability that is NaN, or that it does not know


class Client:
    """A server's address.

    Args:
        seconds: longest wait for a reply.
        said: says how the server is, for errors."""

    def __init__(self, url: str, seconds: float, said: Callable[[], str] = lambda: "see its log") -> None:
        self.url, self._seconds, self._said = url.rstrip("/"), seconds, said

    def check(self) -> None:
        """Make sure that the server can be trained with. Raises InputError: it lacks the endpoints for weights, or
        gives other log-probabilities; StepError: no reply."""
        how = ("start it with VLLM_SERVER_DEV_MODE=1 in its environment and --logprobs-mode processed_logprobs "
               "--generation-config vllm --enable-scale-out (docs/generation.md)")
        try:
            found = self._request("/server_info?config_format=json")
            self.version()
        except urllib.error.HTTPError as error:
            raise InputError(f"the server {self.url} has no {error.filename.removeprefix(self.url).partition('?')[0]}: "
                             f"it is no vLLM of release 0.32 or later in its mode for training; {how}") from None
        mode = (found.get("vllm_config", {}).get("model_config") or {}).get("logprobs_mode")
        if mode != _MODE:
            raise InputError(f"the server {self.url} has logprobs_mode={mode!r}, allowed: {_MODE}; {how}")

    def version(self) -> str:
        """Return the name of the weights that it has."""
        return str(self._request("/weight_info").get("weight_version"))

    def name_weights(self, version: str) -> None:
        """Give the weights that it has a name. Raises StepError: it has another one afterwards."""
        self._ask("/update_weight_version", {"new_version": version})
        if (found := self._ask("/weight_info").get("weight_version")) != version:
            raise self._error(f"says that its weights are {found!r} after they were named {version!r}: another run "
                              "uses it too, or it is several servers behind one address")

    def load(self, directory: Path, version: str) -> None:
        """Have it answer with the weights of a directory from now on."""
        self._ask("/pause?mode=wait", {})
        self._ask("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(directory)},
                                      "timeout": self._seconds})
        self.name_weights(version)
        self._ask("/resume", {})

    def generate(self, prompt: Sequence[int], seed: int, decoding: Decoding, vocabulary: int,
                 version: str) -> tuple[list[int], list[float]]:
        """Return an answer's tokens, with the stop token if it ended by itself, and their log-probabilities.

        `vocabulary`: number of token ids; `version`: name of the weights.

        Raises StepError: no reply, or one that cannot be what was asked for: other weights, unknown tokens, a length
        or an end that is not allowed, a log-probability that is none."""
        chosen = {"n": 1, "seed": seed, "temperature": decoding.temperature, "max_tokens": decoding.max_new_tokens,
                  "top_p": 1.0, "top_k": 0, "min_p": 0.0, "logprobs": 0, "ignore_eos": True, "detokenize": False,
                  "stop_token_ids": sorted(decoding.stop_ids)}
        reply = self._ask("/inference/v1/generate", {"token_ids": list(prompt), "sampling_params": chosen})
        try:
            [choice] = reply["choices"]
            tokens, scores = choice["token_ids"], choice["logprobs"]["content"]
            found = [int(token) for token in tokens], [float(score["logprob"]) for score in scores]
            of = [int(score["token_id"]) for score in scores]
            spans = [(span["version"], span["start"], span["end"]) for span in choice["weight_versions"]]
        except (KeyError, TypeError, ValueError):
            raise self._error(f"replied {json.dumps(reply)[:300]}, which has no one answer with token_ids, logprobs "
                              "and weight_versions") from None
        if spans != [(version, 0, len(tokens))]:
            by = ", ".join(f"{name!r} for tokens {start} to {end}" for name, start, end in spans)
            raise self._error(f"sampled an answer of {len(tokens)} tokens by {by or 'no weights at all'}, and not all "
                              f"by {version!r}: it is not learnt from")
        if problem := _problem(*found, of, decoding, vocabulary):
            raise self._error(problem)
        return found

    def _ask(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        try:
            return self._request(path, body)
        except urllib.error.HTTPError as error:
            text = " ".join(error.read(2000).decode("utf-8", "replace").split())
            raise self._error(f"answered {path.partition('?')[0]} with {error.code}: {text[:500]}") from None

    def _request(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=self._seconds) as reply:
                text = reply.read()
            found = json.loads(text) if text.strip() else {}
        except urllib.error.HTTPError:
            raise
        except (OSError, HTTPException, ValueError) as error:
            late = isinstance(getattr(error, "reason", error), TimeoutError)
            why = f"within {self._seconds:g} s (server.seconds)" if late else f"({error or type(error).__name__})"
            raise self._error(f"does not answer {path.partition('?')[0]} {why}") from None
        if not isinstance(found, dict):
            raise self._error(f"replied {text[:100]!r} to {path.partition('?')[0]}")
        return found

    def _error(self, problem: str) -> StepError:
        return StepError(f"the vLLM server {self.url} {problem}; {self._said()}")


def _problem(tokens: Sequence[int], logprobs: Sequence[float], of: Sequence[int], decoding: Decoding,
             vocabulary: int) -> str:
    """Say why these cannot be an answer's tokens and their log-probabilities; "" where they can."""
    ends = [at for at, token in enumerate(tokens) if token in decoding.stop_ids]
    if unknown := [token for token in tokens if not 0 <= token < vocabulary]:
        return f"sampled token {unknown[0]}, which is none of the model's {vocabulary}"
    if not 1 <= len(tokens) <= decoding.max_new_tokens:
        return f"gave an answer of {len(tokens)} tokens, allowed: 1 to {decoding.max_new_tokens}"
    if list(of) != list(tokens):
        return f"gave log-probabilities of the tokens {list(of)[:8]}, and the answer {list(tokens)[:8]}"
    if len(tokens) != (ends[0] + 1 if ends else decoding.max_new_tokens):
        where = f"has a stop token at {ends[0]}" if ends else "has no stop token"
        return f"gave an answer of {len(tokens)} tokens that {where}: it must end at the first one, or at the limit"
    wrong = [value for value in logprobs if not math.isfinite(value) or value <= _NO_NUMBER or value > 1e-3]
    return f"gave the log-probability {wrong[0]}, which is none" if wrong else ""


_SHARED, _OWN = 0.4, 0.9  # of a GPU's memory, beside training and alone
_OTHERS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
           "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT")  # fmt: skip
_FLAGS = ("--logprobs-mode", "processed_logprobs", "--generation-config", "vllm", "--enable-scale-out")


def check_installed(server: ServerConfig) -> None:
    """Refuse to start a server where its program is not there. Raises InputError, which says what to do."""
    if not server.url and not shutil.which(server.command):
        raise InputError(f"generation=vllm starts {server.command!r}, which is no program here: install vLLM in an "
                         "environment of its own (docs/install.md) and name its program in server.command, name a "
                         "running server in server.url, or take generation=transformers")


def start_server(server: ServerConfig, model: Path, dtype: str, length: int, log: Path) -> KeptServer:
    """Start vLLM with a model. `length`: tokens of the longest prompt with its answer."""
    port = free_port()
    memory = server.memory or (_OWN if server.gpus else _SHARED)
    command = [server.command, "serve", str(model), "--host", "127.0.0.1", "--port", str(port),
               "--served-model-name", "policy", "--dtype", dtype, "--max-model-len", str(length),
               "--tensor-parallel-size", str(max(1, server.gpus)), "--gpu-memory-utilization", f"{memory:g}",
               "--uvicorn-log-level", "warning", *_FLAGS, *server.arguments]  # fmt: skip
    return KeptServer(command, f"http://127.0.0.1:{port}", log, _environment(os.environ, server.gpus))


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
