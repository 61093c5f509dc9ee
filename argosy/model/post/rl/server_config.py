"""Config of the server that samples answers."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from argosy.core.config.schema import RUNTIME, Config


class ServerConfig(Config):
    """Config of vLLM as a server; read where `generation` is vllm."""

    url: Annotated[str, RUNTIME] = ""
    """URL of a running server, such as http://node:8000, which docs/posttraining.md says how to start; "": the step
    starts one, which ends with it."""
    command: Annotated[str, RUNTIME] = "vllm"
    """Program that is started; a path such as /opt/vllm/bin/vllm, where vLLM has an environment of its own."""
    arguments: tuple[str, ...] = ()
    """More arguments of `vllm serve`, such as --enforce-eager."""
    gpus: Annotated[int, RUNTIME] = Field(default=0, ge=0)
    """GPUs that are the server's alone, the last ones of the step's, over which it divides the model; 0: it shares the
    GPU of the first process."""
    memory: Annotated[float, RUNTIME] = Field(default=0.0, ge=0, lt=1)
    """Share of a GPU's memory that the server takes; 0 is 0.9 of its own GPUs, and 0.4 of one that it shares."""
    folder: Annotated[str, RUNTIME] = ""
    """Directory for weights on their way to the server, which both see, such as /dev/shm; "": the step's own."""
    start_seconds: Annotated[float, RUNTIME] = Field(default=900.0, gt=0)
    """Longest wait until it answers for the first time."""
    seconds: Annotated[float, RUNTIME] = Field(default=600.0, gt=0)
    """Longest wait for an answer, or for the loading of weights."""
    tolerance: float = Field(default=0.5, gt=0)
    """Largest mean difference between the server's log-probabilities and the policy's own, in nats a token: above it
    the server has other weights, or computes something else."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url={self.url!r} is not allowed: it begins with http:// or https://, such as "
                             "http://node:8000")
        for name in ("gpus", "memory", "arguments"):
            if self.url and getattr(self, name):
                raise ValueError(f"{name} is for a server that the step starts, and url={self.url!r} names one that "
                                 f"runs: leave {name} or url out")
        return self
