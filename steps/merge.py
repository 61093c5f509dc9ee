"""Merge: several checkpoints of one line as one, which is evaluated like any other.

    python -m steps.merge --config '{"checkpoint": DIR, "others": [DIR], "method": "slerp"}' --out DIR

See docs/export.md."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from argosy.core.config.schema import RUNTIME, Config, ModelDir, ModelDirs, Upstream
from argosy.core.errors import InputError
from argosy.core.lazy import Tensor
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.store.step_files import given_directory
from argosy.model.weights.export import Export

if TYPE_CHECKING:
    from argosy.model.weights.checkpoint import Checkpoint

Method = Literal["average", "slerp", "ties"]
METHODS: tuple[str, ...] = get_args(Method)
_APART = re.compile(  # fields of a model's kind that matter to training and to decoding alone
    r"initializer_range|use_cache|max_position_embeddings|pretraining_tp|\w+_token_id|\w+_(dropout|pdrop|noise|coef)")


class MergeConfig(Config):
    """Config of the step."""

    checkpoint: ModelDir = ""
    """directory of a training step, or of a model that transformers loads; whose line the merge goes on"""
    export: str = "final"
    """name of the training step's export, or `final`"""
    others: ModelDirs = ()
    """directories of the others, of the same shape and tokenizer"""
    exports: tuple[str, ...] = ()
    """name of the export of each of them; empty: final"""
    base: Upstream = ""
    """directory of the model that all were trained from, of ties"""
    base_export: str = "final"
    """name of the base's export, or `final`"""
    of: Annotated[tuple[str, ...], RUNTIME] = ("sft", "dpo")
    """stages of a pipeline whose models are merged, each with /EXPORT for another than its last"""
    base_of: Annotated[str, RUNTIME] = ""
    """stage of a pipeline whose model is the base of ties"""
    stage: str = "merge"
    """name of the checkpoint in results"""
    method: Method = "average"
    """average: their mean; slerp: along the arc between two; ties: largest changes of the base that agree in sign"""
    weights: tuple[Annotated[float, Field(gt=0)], ...] = ()
    """weight of each, the first one's first; empty: the same"""
    density: float = Field(0.2, gt=0, le=1)
    """share of a tensor's changes that ties keeps"""

    @model_validator(mode="before")
    @classmethod
    def _name_merged(cls, values: Any) -> Any:
        """Record what is merged where directories are given, not what a pipeline would merge."""
        if not isinstance(values, dict) or "of" in values or not values.get("others"):
            return values
        return {**values, "of": [str(values.get("checkpoint", "")), *map(str, values["others"])]}

    def check_fields(self) -> None:
        count = len(self.others) + 1 if self.others else len(self.of)
        if self.weights and len(self.weights) != count:
            raise ValueError(f"weights has {len(self.weights)} values, and there are {count} checkpoints: give one for "
                             "each, or none")
        if self.exports and self.others and len(self.exports) != len(self.others):
            raise ValueError(f"exports has {len(self.exports)} values, and others {len(self.others)}: give one for "
                             "each, or none")
        if count < 2 or (self.method == "slerp" and count != 2):
            raise ValueError(f"of has {count} checkpoints, allowed: {'2' if self.method == 'slerp' else '2 or more'}"
                             f" with method={self.method}")
        if not self.others and (twice := [name for name in self.of if self.of.count(name) > 1]):
            raise ValueError(f"of has {twice[0]} twice, allowed: each model once; weights gives one of them more")
        if (self.method == "ties") != bool(self.base or self.base_of):
            raise ValueError("base_of is the model that all were trained from: method=ties needs it, the others do not")
        if self.density != type(self).model_fields["density"].default and self.method != "ties":
            raise ValueError(f"density is of method=ties, and method is {self.method}: leave it out")

    def shares(self) -> tuple[float, ...]:
        """Return the weight of each checkpoint, which sum to 1."""
        weights = self.weights or (1.0,) * (1 + len(self.others))
        return tuple(weight / sum(weights) for weight in weights)


class MergeOutputs(Config):
    """The checkpoint, and what it is of."""

    exports: list[Export]
    final: str
    method: str
    merged: list[str]
    """stage and name of each"""


def run(config: MergeConfig, context: StepContext) -> MergeOutputs:
    """Merge and write, a tensor at a time. Raises InputError: there is no such checkpoint, or they differ in their
    shapes or tokenizers."""
    from argosy.core.step.process import make_deterministic

    make_deterministic(0, 1)
    from argosy.model.weights.checkpoint import find_checkpoint
    from argosy.model.weights.export import Exporter
    from argosy.model.weights.load import own_dtype
    from argosy.model.weights.pretrained import load_tokenizer

    names = (config.export, *(config.exports or ("final",) * len(config.others)))
    given = [("checkpoint", config.checkpoint), *(("others", directory) for directory in config.others)]
    sources = [find_checkpoint(given_directory(*each, "training"), name)
               for each, name in zip(given, names, strict=True)]
    first = sources[0]
    paths = [source.path for source in sources]
    if twice := [path for path in paths if paths.count(path) > 1]:
        raise InputError(f"{twice[0]} is named twice, allowed: each model once; weights gives one of them more")
    base = [find_checkpoint(given_directory("base", config.base, "training"), config.base_export)
            ] if config.method == "ties" else []
    model, weights = _open_alike([*sources, *base])
    exporter = Exporter(context, config.stage, load_tokenizer(first.path), max(each.tokens for each in sources),
                        any(each.chat for each in sources), own_dtype(first.path))
    exporter.write("final", model, 0, 0, _merged(weights, _method(config)))
    export = exporter.describe("final", 0, 0)
    made = [f"{each.stage}/{each.name}" if each.stage else each.name for each in sources]
    print(f"{config.method} of {', '.join(made)}", flush=True)
    return MergeOutputs(exports=[export], final=export.path, method=config.method, merged=made)


def _open_alike(sources: "Sequence[Checkpoint]") -> "tuple[Any, list[Mapping[str, Tensor]]]":
    """Open models that can be merged; returns the first, and the weights of each, without memory where files allow it.
    Raises InputError: two differ in tensors, in what computes with them or in tokenizers, or one is quantized."""
    from argosy.model.weights.export import whole_weights
    from argosy.model.weights.pretrained import load_tokenizer
    from argosy.model.weights.quantize import quantization_of
    from argosy.model.weights.unfilled import numbers_of, unfilled

    for source in sources:
        if by := quantization_of(source.path):
            raise InputError(f"checkpoint {source.path} is quantized ({by}): name the one that it was made from")
    models = [unfilled(source.path) for source in sources]
    weights: list[Mapping[str, Tensor]] = [numbers_of(model) or whole_weights(model) for model in models]
    shapes, ways = list(map(_shapes, models, weights)), [_computes(model.config) for model in models]
    first, vocabulary = sources[0].path, load_tokenizer(sources[0].path).get_vocab()
    for place, source in enumerate(sources):
        for kind, what in (("tensor ", shapes), ("", ways)):
            for name in sorted(what[0] | what[place]):
                own, other = (str(each.get(name, "absent")) for each in (what[place], what[0]))
                if own != other:
                    raise InputError(f"{kind}{name} is {own} in checkpoint {source.path} and {other} in {first}: merge "
                                     "models that are alike, such as those of one line")
        if load_tokenizer(source.path).get_vocab() != vocabulary:
            raise InputError(f"checkpoints {first} and {source.path} have tokenizers with different tokens: merge "
                             "models of one tokenizer")
    return models[0], weights


def _shapes(model: Any, weights: "Mapping[str, Tensor]") -> dict[str, Any]:
    there = dict(model.named_parameters())
    return {name: list((there[name] if name in there else weights[name]).shape) for name in weights}


def _computes(config: Any) -> dict[str, Any]:
    """Return the fields of the model's kind that change what is computed with its weights."""
    from transformers import PreTrainedConfig

    known = type(config)().to_dict().keys() - PreTrainedConfig().to_dict().keys() | {"model_type"}
    return {name: value for name, value in config.to_dict().items() if name in known and not _APART.fullmatch(name)}


def _merged(weights: "Sequence[Mapping[str, Tensor]]", merge: "Callable[[Sequence[Tensor]], Tensor]"
            ) -> "Iterator[tuple[str, Tensor]]":
    """Yield the weights of a merge by name, in float32, each made when its turn comes."""
    from argosy.model.weights.drawn import Numbers

    for name in sorted(weights[0]):
        parts = [each[name].float() for each in weights]
        for each, part in zip(weights, parts, strict=True):
            if isinstance(each, Numbers):  # others were checked as they were loaded
                each.check(name, part)
        yield name, merge(parts)


def _method(config: MergeConfig) -> "Callable[[Sequence[Tensor]], Tensor]":
    """Return what merges the parts of a tensor; with ties, that of the base is the last."""
    from argosy.model.weights.merging import mean, slerp, ties

    shares = config.shares()
    if config.method == "ties":
        return lambda parts: ties(parts[:-1], shares, parts[-1], config.density)
    return partial({"average": mean, "slerp": slerp}[config.method], shares=shares)


STEP = Step("merge", MergeConfig, run, needs="train", makes_model=True, methods=METHODS)

if __name__ == "__main__":
    main(STEP)
