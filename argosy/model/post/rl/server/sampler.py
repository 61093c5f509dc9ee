"""Answers by vLLM as a server: it gets the policy's weights through a directory, and one request for each answer."""

import shutil
import uuid
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from argosy.core.errors import ArgosyError, Stopped
from argosy.core.store.files import temporary_of
from argosy.core.store.step_files import SERVER_LOG
from argosy.model.infer.decode import Answers, Decoding
from argosy.model.infer.keeper import KeptServer
from argosy.model.post.rl import RLHFConfig
from argosy.model.post.rl.rollout import Sampler
from argosy.model.post.rl.server import Client, start_server
from argosy.model.post.stage import Stage
from argosy.model.train.engines.parts import WholeModel
from argosy.model.weights.export import save_weights, whole_weights

_PARALLEL = 256  # requests of a process at a time, at most
_LOOK_S = 0.2  # between two looks whether the answers are given up


class VLLMSampler(Sampler):
    """A server's answers; rank 0 starts it, sends it weights and ends it, and every process asks it for its share.

    Weights travel as a directory of safetensors, in the precision that the server computes in, adapters merged: one
    write, one read, and no server that restarts. Each version of them has a name of this run's own, which the server
    gives back with every token, so that an answer by other weights is an error and is not learnt from.

    Args:
        length: tokens of the longest prompt with its answer."""

    def __init__(self, stage: Stage[RLHFConfig], whole: WholeModel, length: int) -> None:
        super().__init__()
        self._stage, self._whole, self._length = stage, whole, length
        self._vocabulary = 0
        self._run = stage.group.agreed(uuid.uuid4().hex[:8])
        self._process: KeptServer | None = None
        self._client: Client | None = None
        self._version = ""
        out, folder = stage.context.out, stage.config.server.folder
        self._folder = Path(folder).absolute() / f"argosy-{self._run}" if folder else temporary_of(out / "weights")

    def publish(self, version: int) -> None:
        """Have the server answer with the weights as they are; every process calls it. The first time it is started."""
        model = self._whole.refresh()
        self._version, url, problem = f"{self._run}-{version}", "", None
        if self._stage.group.rank == 0:
            try:
                self._send(model, version)
                url = self._client.url if self._client else ""
            except ArgosyError as error:  # the others wait for it
                problem = error
        url, problem = self._stage.group.agreed((url, problem))
        if problem:
            raise problem
        if self._client is None:
            self._client = Client(url, self._stage.config.server.seconds, self._said)
        self._vocabulary = int(model.config.get_text_config().vocab_size)

    def __call__(self, prompts: Sequence[Sequence[int]], seeds: Sequence[Sequence[int]], decoding: Decoding) -> Answers:
        """Answer each prompt; each answer is a request. Raises StepError: the server has died, is silent, or its
        answers cannot be what was asked for."""
        assert self._client
        client, pool = self._client, ThreadPoolExecutor(min(_PARALLEL, decoding.batch_size), "vllm")

        def ask(prompt: Sequence[int], seed: int) -> tuple[list[int], list[float]]:
            seed >>= 1  # the server's have a sign
            return client.generate(prompt, seed, decoding, self._vocabulary, self._version)

        asked = [pool.submit(ask, prompt, seed) for prompt, own in zip(prompts, seeds, strict=True) for seed in own]
        try:
            while wait(asked, _LOOK_S, FIRST_EXCEPTION).not_done:
                if self.cancelled.is_set():
                    raise Stopped("the generation was given up")
                for each in asked:
                    if each.done():
                        each.result()  # raises what it failed with
            found = [each.result() for each in asked]
            return Answers([tokens for tokens, _ in found], [logprobs for _, logprobs in found])
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """End the server that this step has started, and remove what it was sent."""
        if self._process:
            self._process.close()
        if self._stage.group.rank == 0:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _said(self) -> str:
        log = "its log" if self._stage.config.server.url else self._stage.context.out / SERVER_LOG
        return self._process.said() if self._process else f"see {log}"

    def _send(self, model: Any, version: int) -> None:
        """Give the server the weights, in a directory that goes when it has read them."""
        config, directory = self._stage.config.server, self._folder / str(version)
        self._write(model, directory)
        if self._client is None:
            self._client = self._connect(directory)
            if not config.url:
                self._client.name_weights(self._version)
                return
        self._client.load(directory, self._version)
        for old in self._folder.iterdir():
            if old != directory:
                shutil.rmtree(old, ignore_errors=True)

    def _connect(self, directory: Path) -> Client:
        config = self._stage.config
        if not config.server.url:
            log = self._stage.context.out / SERVER_LOG
            self._process = start_server(config.server, directory, config.dtype, self._length, log)
        url = self._process.url if self._process else config.server.url
        client = Client(url, config.server.seconds, self._said)
        if self._process:
            self._process.wait(config.server.start_seconds, " (server.start_seconds)")
        client.check()
        return client

    def _write(self, model: Any, directory: Path) -> None:
        directory.mkdir(parents=True)
        whole = whole_weights(model)
        before = dict(vars(model.config))
        if not model.config.model_type.startswith("gemma"):  # which vLLM has no output layer for
            # A tied one keeps, in vLLM 0.32, the weights of the start whenever others are loaded.
            whole |= {name: whole[source].clone() for name, source in model.all_tied_weights_keys.items()}
            model.config.tie_word_embeddings = False
        save_weights(model, directory, whole.items(), self._stage.config.dtype)
        vars(model.config).clear()  # the writer of config.json leaves no trace in a model that is trained on
        vars(model.config).update(before)
        if self._client is None:
            self._stage.source.tokenizer.save_pretrained(directory)
