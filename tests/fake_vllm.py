"""A stand-in of `vllm serve` that speaks the same HTTP, with the fields of 0.32 and 0.33, around a small model.

In a test's process (`serving`), or by itself: `python -m tests.fake_vllm serve DIRECTORY --port N ...`. `faults` says
what it does wrong."""

import json
import sys
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests import servers

FIELDS = {"n", "seed", "temperature", "max_tokens", "top_p", "top_k", "min_p", "logprobs", "ignore_eos", "detokenize",
          "stop_token_ids"}  # of vllm.SamplingParams that are sent here


class FakeVLLM:
    """The server's state.

    Attributes:
        faults: name -> value of what it does wrong: `stale` loads no weights, `silent` and `dead` answer nothing,
            `answer` changes a choice before it is sent, `mode` is another mode of log-probabilities.
        asked: paths of the requests, but of answers; loaded: directories of weights that it has read."""

    def __init__(self, directory: str = "", **faults: Any) -> None:
        self.faults, self.asked, self.loaded = faults, [], []  # type: ignore[var-annotated]
        self._lock, self._model, self._paused = threading.Lock(), None, False
        self.version, self._directory = "default", directory

    def get(self, path: str) -> Any:
        if path == "/health":
            return {}
        if path == "/weight_info":
            return {"weight_version": self.version}
        if path == "/server_info?config_format=json":
            return {"vllm_config": {"model_config": {"logprobs_mode": self.faults.get("mode", "processed_logprobs")}}}
        return None

    def post(self, path: str, body: Any) -> Any:
        if path == "/inference/v1/generate":
            return self._generate(body)
        self.asked.append(path)
        if path in ("/pause?mode=wait", "/resume"):
            self._paused = path != "/resume"
            return {}
        if path == "/collective_rpc" and body["method"] == "reload_weights" and self._paused:
            if "stale" not in self.faults:
                self._load(body["kwargs"]["weights_path"])
            return {"results": [None]}
        if path == "/update_weight_version":
            self.version = body["new_version"]
            return {"success": True, "new_version": self.version}
        return None

    def _load(self, directory: str) -> None:
        """Take over the weights of a directory, as vLLM does: into the model that is there."""
        from safetensors.torch import load_file
        from transformers import AutoModelForCausalLM

        if self._model is None:
            self._model = AutoModelForCausalLM.from_pretrained(directory).eval()
        else:
            tied = self._model.get_output_embeddings().weight is self._model.get_input_embeddings().weight
            assert not tied, "vLLM would keep the output layer of before"
            self._model.load_state_dict(load_file(Path(directory, "model.safetensors")), strict=False)
        self.loaded.append(directory)

    def _generate(self, body: Any) -> Any:
        from argosy.model.infer.decode import Decoding, TransformersDecoder

        chosen = body["sampling_params"]
        assert set(body) == {"token_ids", "sampling_params"}
        assert set(chosen) == FIELDS
        assert not self._paused
        assert -(2**63) <= chosen["seed"] < 2**63
        assert (chosen["ignore_eos"], chosen["detokenize"], chosen["n"], chosen["logprobs"]) == (True, False, 1, 0)
        with self._lock:
            if self._model is None:
                self._load(self._directory)
            decoding = Decoding(chosen["stop_token_ids"], 0, chosen["max_tokens"], chosen["temperature"])
            [tokens], [scores] = TransformersDecoder(self._model)([body["token_ids"]], [[chosen["seed"]]], decoding)
        stopped = tokens[-1] in chosen["stop_token_ids"]
        content = [{"token_id": token, "logprob": score, "rank": 1, "top_logprobs": []}
                   for token, score in zip(tokens, scores, strict=True)]
        choice = {"index": 0, "token_ids": tokens, "logprobs": {"content": content}, "sampling_mask": None,
                  "finish_reason": "stop" if stopped else "length", "stop_reason": tokens[-1] if stopped else None,
                  "weight_versions": [{"version": self.version, "start": 0, "end": len(tokens)}]}
        self.faults.get("answer", lambda _: None)(choice)
        return {"request_id": "generate-tokens-1", "model": "policy", "created": 1, "choices": [choice],
                "output_mode": "tokens", "prompt_logprobs": None, "usage": {"completion_tokens": len(tokens)}}


def serving(fake: FakeVLLM) -> AbstractContextManager[str]:
    """Let the fake answer at the URL that is yielded."""
    return servers.serving(handler_of(fake))


def handler_of(fake: FakeVLLM) -> type[servers.Handler]:
    class Answers(servers.Handler):
        def do_GET(self) -> None:
            self._answer(fake.get(self.path))

        def do_POST(self) -> None:
            body = json.loads(self.body())
            if "silent" in fake.faults:
                time.sleep(2)
            none = "dead" in fake.faults or "silent" in fake.faults
            self._answer(None if none else fake.post(self.path, body))

        def _answer(self, found: Any) -> None:
            none = {"error": {"message": "no such thing"}}
            self.reply(404 if found is None else 200, json.dumps(none if found is None else found).encode())

    return Answers


if __name__ == "__main__":
    _, _, model, *arguments = sys.argv
    options = dict(zip(arguments[::2], arguments[1::2], strict=False))
    print("fake vLLM with", model, flush=True)
    if "--broken" in arguments:
        sys.exit("RuntimeError: no kernel image is available")
    servers.Server(("127.0.0.1", int(options["--port"])), handler_of(FakeVLLM(model))).serve_forever()
