"""Export: a checkpoint in the formats of others, for where it is served or published.

    python -m steps.export --config '{"checkpoint": DIR, "formats": ["onnx"]}' --out DIR

Each format is a folder of its name: onnx, gguf, hub (safetensors with a model card), adapter. See docs/export.md."""

from typing import Annotated

from pydantic import Field

from argosy.core.config.schema import ADDED, RUNTIME, Config, ModelDir, Upstream, Upstreams
from argosy.core.statistics.metric import Metric
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.step.process import make_deterministic
from argosy.core.store.files import make_directory
from argosy.core.store.step_files import given_directory
from argosy.model.weights.exports import EXPORTS, Source


class ExportConfig(Config):
    """Config of the step."""

    checkpoint: ModelDir = ""
    """directory of a training step, or of a model that transformers loads"""
    export: str = "final"
    """name of the training step's export, or `final`"""
    evaluations: Upstreams = ()
    """directories of evaluations of the checkpoint, for its model card"""
    clean: Upstream = ""
    """directory of the clean step whose documents it was trained on, for its model card; "" for none"""
    scored: Upstreams = ()
    """directories of the score steps that the clean step has gathered, in their order"""
    of: Annotated[str, RUNTIME] = "sft"
    """stage of a pipeline whose model is exported"""
    formats: tuple[str, ...] = Field(("hub",), min_length=1)
    """formats: onnx, gguf, hub, adapter"""
    dtype: str = ""
    """precision of the weights; "" for each format's own: float32 of onnx, bfloat16 of gguf, the weights' of hub"""
    base: Annotated[str, ADDED] = ""
    """name that the hub has for the base of the adapter that is exported; "" for its directory"""
    licence: str = ""
    """licence of the model, by its SPDX identifier, for its model card"""
    threads: int = Field(1, ge=1)
    """threads of torch"""

    def check_fields(self) -> None:
        if wrong := [name for name in self.formats if name not in EXPORTS]:
            raise ValueError(f"formats: {EXPORTS.unknown(wrong[0])}")
        if without := next((name for name in self.formats if self.dtype not in ("", *EXPORTS[name].dtypes)), None):
            raise ValueError(f"dtype is {self.dtype!r}, allowed for {without}: {', '.join(EXPORTS[without].dtypes)}")
        if len({*self.formats}) < len(self.formats):
            raise ValueError(f"formats is {', '.join(self.formats)}, one of them twice: name each once")


class ExportOutputs(Config):
    """Folders by format, relative to the step's directory, and their bytes."""

    formats: dict[str, str]
    bytes: dict[str, int]


def run(config: ExportConfig, context: StepContext) -> ExportOutputs:
    """Export in each format. Raises InputError: there is no such checkpoint, or it cannot be exported so; StepError: an
    export differs."""
    from argosy.evidence.report.card import Sources, model_card
    from argosy.model.weights.checkpoint import find_checkpoint

    for name in config.formats:
        EXPORTS[name].check()
    checkpoint = find_checkpoint(given_directory("checkpoint", config.checkpoint, "training"), config.export)
    make_deterministic(0, config.threads)
    sources = Sources(config.evaluations, config.clean, config.scored)
    card = model_card(checkpoint, sources, config.licence) if any(EXPORTS[name].card for name in config.formats) else ""
    sizes = {}
    for name in config.formats:
        out = make_directory(context.out / name)
        with context.progress.during(name):
            measured = EXPORTS[name].write(Source(checkpoint.path, card, config.dtype, config.base), out)
        sizes[name] = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        context.tracker.metrics({f"export/{name}/{what}": value for what, value in measured.items()}
                                | {f"size/{name}_mb": sizes[name] / 1e6})
    return ExportOutputs(formats={name: name for name in config.formats}, bytes=sizes)


STEP = Step("export", ExportConfig, run, needs="train",
            metrics={"export/*/difference": Metric("lower", "largest difference of a logit"),
                     "size/*": Metric("lower", "MB")})

if __name__ == "__main__":
    main(STEP)
