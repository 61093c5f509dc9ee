"""Quantization: a checkpoint's linear layers in 8 or 4 bits, as a checkpoint that is evaluated like any other.

    python -m steps.quantize --config '{"checkpoint": DIR, "method": "int8"}' --out DIR

vLLM and SGLang compute with the packed weights; transformers unpacks them as it loads. See docs/export.md."""

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from argosy.core.config.schema import RUNTIME, Config, ModelDir, Seed, Upstream
from argosy.core.errors import InputError
from argosy.core.lazy import Tensor, torch
from argosy.core.statistics.metric import Metric
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.step.process import make_deterministic
from argosy.core.store.step_files import given_directory
from argosy.model.weights.export import Export
from argosy.model.weights.quantize import METHODS

ROW = 512  # tokens of a row of calibration text
_MB = 1e6


class QuantizeConfig(Config):
    """Config of the step."""

    checkpoint: ModelDir = ""
    """directory of a training step, or of a model that transformers loads"""
    export: str = "final"
    """name of the training step's export, or `final`"""
    tokenized: Upstream = ""
    """directory of a tokenize step, whose held-out documents are the calibration text of awq"""
    of: Annotated[str, RUNTIME] = "sft"
    """stage of a pipeline whose model is quantized; an item of `posttraining` has `from` in its place"""
    stage: str = "quantize"
    """name of the checkpoint in results"""
    method: Literal["int8", "int4", "awq", "fp8"] = "int8"
    """bits of a weight; awq: int4 after a search on calibration text"""
    group_size: Literal[32, 64, 128] | None = None
    """inputs that share a scale, of int4 and awq; null: the most of these that divide every layer's inputs"""
    calibration_tokens: int = Field(2048, ge=1)
    """tokens of calibration text, of awq, over all channels"""
    seed: Seed = 0
    """seed of the process; nothing is drawn at random"""
    threads: int = Field(1, ge=1)
    """threads of torch; changes last digits of what awq finds"""


class QuantizeOutputs(Config):
    """The checkpoint, and its size."""

    exports: list[Export]
    final: str
    method: str
    group_size: int
    """inputs that share a scale; 0: all of an output"""
    bytes_before: int
    """bytes of the weights' files"""
    bytes: int


def run(config: QuantizeConfig, context: StepContext) -> QuantizeOutputs:
    """Quantize, write, measure. Raises InputError: there is no such checkpoint, it cannot be quantized so, or a package
    is not installed."""
    from argosy.model.weights.checkpoint import find_checkpoint
    from argosy.model.weights.export import Exporter
    from argosy.model.weights.load import load_model, own_dtype
    from argosy.model.weights.pretrained import load_tokenizer
    from argosy.model.weights.quantize import check, quantization_of, quantize, require, save, scale_inputs

    source = find_checkpoint(given_directory("checkpoint", config.checkpoint, "training"), config.export)
    if by := quantization_of(source.path):
        raise InputError(f"checkpoint {source.path} is quantized already ({by}): name the one that it was made from")
    require(f"method is {config.method}")
    make_deterministic(config.seed, config.threads)
    tokenizer, dtype = load_tokenizer(source.path), own_dtype(source.path)
    model = load_model(source.path).eval().to(context.device)
    group = check(model, config.method, config.group_size)
    if config.method == "awq":
        with context.progress.during("calibration"):
            scale_inputs(model, _calibration(config, tokenizer), group)
    quantize(model, config.method, group, dtype)
    exporter = Exporter(context, config.stage, tokenizer, source.tokens, source.chat, dtype)
    exporter.publish("final", 0, 0, lambda made, _: save(model, made, dtype))
    final = context.out / exporter.path("final")
    before, after = load_model(source.path, dtype="auto"), load_model(final, dtype="auto")
    sizes = _measure(source.path, before, final, after, context)
    export = exporter.describe("final", 0, 0)
    return QuantizeOutputs(exports=[export], final=export.path, method=config.method, group_size=group,
                           bytes_before=sizes[0], bytes=sizes[1])


def _calibration(config: QuantizeConfig, tokenizer: Any) -> list[Tensor]:
    """Cut held-out documents, as many tokens of each channel, into rows."""
    from argosy.corpus.tokens.reader import check_tokenizer, read_channels

    directory = given_directory("tokenized", config.tokenized, "tokenize")
    check_tokenizer(directory, tokenizer, "give the `tokenized` that was made with the checkpoint's tokenizer")
    channels = read_channels(directory, "heldout")
    if not channels:
        raise InputError(f"tokenized: {directory} has no held-out documents, which awq is calibrated on: set "
                         "tokenize.heldout_share, or method=int4")
    rows: list[Tensor] = []
    most = -(-config.calibration_tokens // len(channels))
    for channel in channels.values():
        parts = [channel.tokens[channel.offsets[at] : channel.offsets[at + 1]] for at in channel.choose(most)]
        rows += torch.tensor([int(token) for part in parts for token in part][:most]).split(ROW)
    return rows


def _measure(source: Path, before: Any, final: Path, after: Any, context: StepContext) -> tuple[int, int]:
    """Log size on disk, memory and speed of both models, as transformers has them; return the sizes."""
    from argosy.model.weights.adapters.files import base_path, is_adapter

    sizes = (_bytes(base_path(source)) if is_adapter(source) else 0) + _bytes(source), _bytes(final)
    speeds = _speeds([before.eval().to(context.device), after.eval().to(context.device)])
    for number, name in enumerate(("before", "after")):
        memory = sum(each.numel() * each.element_size() for each in (before, after)[number].parameters())
        context.tracker.metrics({f"size/{name}_mb": sizes[number] / _MB, f"memory/weights_{name}_mb": memory / _MB,
                                 f"perf/decoding_{name}": speeds[number]})
    print(f"weights: {sizes[0] / _MB:,.1f} MB before, {sizes[1] / _MB:,.1f} MB now", flush=True)
    return sizes


def _bytes(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.glob("*.safetensors"))


def _speeds(models: Sequence[Any]) -> list[float]:
    """Measure tokens a second of greedy decoding: the median of three rounds, in which the models take turns."""
    from argosy.model.infer.decode import Decoding, TransformersDecoder

    prompts = [[7 * row + at for at in range(16)] for row in range(8)]
    decoding = Decoding((), 0, 32, scored=False)
    found: list[list[float]] = [[] for _ in models]
    for _ in range(3):
        for number, model in enumerate(models):
            began = time.perf_counter()
            made = TransformersDecoder(model)(prompts, [[0]] * len(prompts), decoding)
            found[number].append(sum(map(len, made.tokens)) / (time.perf_counter() - began))
    return [statistics.median(each) for each in found]


STEP = Step("quantize", QuantizeConfig, run, needs="train", makes_model=True, methods=METHODS,
            metrics={"size/*": Metric("lower", "MB"), "memory/*": Metric("lower", "MB"),
                     "perf/*": Metric("higher", "tokens a second")})

if __name__ == "__main__":
    main(STEP)
