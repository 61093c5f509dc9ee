"""Start: a model that is there already, as the checkpoint and the tokenizer from which the other stages go on.

    python -m steps.start --config '{"model": "DIR"}' --out DIR

A directory that transformers loads (its files' bytes count), a checkpoint of Argosy, or `org/name@commit` of the
Hugging Face hub. See docs/start.md."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, model_validator

from argosy.core.config.schema import ADDED, Config, External
from argosy.core.errors import InputError
from argosy.core.step.command import main
from argosy.core.step.contract import Planned, Step, StepContext
from argosy.core.step.process import make_deterministic
from argosy.core.store.files import read_record
from argosy.model.weights.checkpoint import model_of_step, no_model_because
from argosy.model.weights.export import Export

TOKENIZER = "tokenizer"


class StartConfig(Config):
    """Config of the step: the model."""

    model: Annotated[External, AfterValidator(model_of_step)] = ""
    """Directory of a model (llama, qwen2, qwen3, mistral, gpt_neox), or of a finished training step, whose final
    checkpoint is taken; a GGUF file; or `org/name@commit` of the Hugging Face hub."""
    hub: str = ""
    """The same, where `model` is a name of the hub; set from it."""
    export_dtype: Annotated[Literal["auto", "float32", "bfloat16", "float16"], ADDED] = "auto"
    """Precision of the checkpoint's weights, and so of later exports; auto: the model's own, of a GGUF file float32."""
    chat: bool | None = None
    """Whether it answers in its chat template, in which evaluations then ask; null: as its argosy.json says, or no."""

    def shapes(self) -> dict[str, Any]:
        """Return the model's config.json; of a file of another kind, and of one that is not here, nothing."""
        return read_record(Path(self.model) / "config.json") if self.model else {}

    def new_context(self) -> int | None:
        """Return the model's context in tokens; None: it is not known here."""
        found = self.shapes().get("max_position_embeddings")
        return found if isinstance(found, int) else None

    @model_validator(mode="before")
    @classmethod
    def _move_hub_name(cls, values: Any) -> Any:
        from argosy.model.weights.elsewhere import is_hub_name

        model = values.get("model") if isinstance(values, dict) else None
        if not isinstance(model, str) or not is_hub_name(model):
            return values
        return {**values, "hub": model, "model": ""}

    def check_fields(self) -> None:
        from argosy.model.weights.elsewhere import is_hub_name

        if self.hub and (self.model or not is_hub_name(self.hub)):
            raise ValueError(f"hub is {self.hub!r}: it is set from `model`; leave it out")


class StartOutputs(Config):
    """The checkpoint, its tokenizer and what was added to them."""

    exports: list[Export]
    final: str
    tokenizer: str
    """Directory, relative to the step's."""
    model_type: str
    parameters: int
    vocab_size: int
    """Tokens of the tokenizer."""
    rows_before: int
    """Rows of the model's embedding, as it came."""
    rows: int
    """The same now."""
    added: dict[str, int]
    """Ids of the tokens that its tokenizer lacked."""
    notes: list[str]
    """Changes that were made."""
    gguf: dict[str, Any] | None = None
    """The GGUF file that it came as: quantization, bytes, sha256."""


def run(config: StartConfig, context: StepContext) -> StartOutputs:
    """Check the model, complete its tokenizer, and write both as a training step does."""
    make_deterministic(0, 1)
    from argosy.model.weights.checkpoint import find_checkpoint
    from argosy.model.weights.elsewhere import download
    from argosy.model.weights.elsewhere.imported import describe_gguf, gguf_in_words, import_model
    from argosy.model.weights.export import Exporter
    from argosy.model.weights.pretrained import is_gguf, weights_dtype

    if not (config.model or config.hub):
        raise InputError("start.model is empty: name the directory of a model, or org/name@commit of the hub")
    source = find_checkpoint(download(config.hub) if config.hub else config.model)
    found = import_model(source.path)
    about = describe_gguf(source.path) if is_gguf(source.path) else source.gguf
    if about:
        found.notes.insert(0, f"it came as {gguf_in_words(dict(about))}")
    ours = f" (stage {source.stage}, step {source.step:,})" if source.ours else ""
    print("\n".join([f"{source.path}{ours}: {found.model.config.model_type}", *found.notes]), flush=True)
    chat = source.chat if config.chat is None else config.chat
    dtype = weights_dtype(source.path) if config.export_dtype == "auto" else config.export_dtype
    exporter = Exporter(context, "start", found.tokenizer, source.tokens, chat, dtype)
    exporter.write("final", found.model, 0, 0)
    found.tokenizer.save_pretrained(context.out / TOKENIZER)
    _check_saved(context.out / TOKENIZER, found.tokenizer)
    export = exporter.describe("final", 0, 0)
    return StartOutputs(
        exports=[export], final=export.path, tokenizer=TOKENIZER, model_type=found.model.config.model_type,
        parameters=found.model.num_parameters(), vocab_size=len(found.tokenizer), rows_before=found.rows[0],
        rows=found.rows[1], added=found.added, notes=found.notes, gguf=dict(about) if about else None)


def check(parts: Sequence[Planned], nodes: Sequence[Planned]) -> None:
    """Check that the directory to begin with holds a model, as `run` does before it loads it. Raises InputError: no."""
    from argosy.model.weights.checkpoint import find_checkpoint
    from argosy.model.weights.elsewhere.imported import check_files

    model = parts[0].config.model
    if model and (problem := no_model_because(Path(model))):
        raise InputError(f"start.model is {model!r}: {problem}")
    if model:
        check_files(find_checkpoint(model).path)


def _check_saved(directory: Path, tokenizer: Any) -> None:
    """Check that the saved tokenizer, which documents are encoded with, makes the tokens that the model was given."""
    from argosy.corpus.tokens.markup import read_markup
    from argosy.corpus.tokens.tokenizer import SAMPLE, load_tokenizer

    saved = load_tokenizer(directory)
    read_markup(directory, saved)
    if saved.encode(SAMPLE, add_special_tokens=False).ids != tokenizer(SAMPLE, add_special_tokens=False)["input_ids"]:
        raise InputError("start.model: its tokenizer makes other tokens in Python than its tokenizer.json says: "
                         "documents would not be encoded as the model expects: save it with a fast tokenizer")


STEP = Step("start", StartConfig, run, version=2, needs="train", makes_model=True, check=check, implied=True)

if __name__ == "__main__":
    main(STEP)
