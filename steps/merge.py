"""Merge: several checkpoints of one line as one, which is evaluated like any other.

    python -m steps.merge --config '{"checkpoint": DIR, "others": [DIR], "method": "slerp"}' --out DIR

See docs/export.md.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Literal, get_args

from pydantic import Field

from argosy.core.config.schema import RUNTIME, Config, ModelDir, ModelDirs, Upstream
from argosy.core.lazy import Tensor
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.store.step_files import given_directory
from argosy.model.weights.export import Export

Method = Literal["average", "slerp", "ties"]
METHODS: tuple[str, ...] = get_args(Method)


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
    """average: their mean; slerp: along the arc between two; ties: their largest changes of the base, where they agree
    in sign"""
    weights: tuple[Annotated[float, Field(gt=0)], ...] = ()
    """weight of each, the first one's first; empty: the same"""
    density: float = Field(0.2, gt=0, le=1)
    """share of a tensor's changes that ties keeps"""

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
    """Merge and write, a tensor at a time.

    Raises InputError: there is no such checkpoint, or they differ in their shapes or tokenizers."""
    from argosy.core.step.process import make_deterministic

    make_deterministic(0, 1)
    from argosy.model.weights.checkpoint import find_checkpoint
    from argosy.model.weights.export import Exporter
    from argosy.model.weights.load import own_dtype
    from argosy.model.weights.merging import merged, open_alike
    from argosy.model.weights.pretrained import load_tokenizer

    names = (config.export, *(config.exports or ("final",) * len(config.others)))
    given = [("checkpoint", config.checkpoint), *(("others", directory) for directory in config.others)]
    sources = [find_checkpoint(given_directory(*each, "training"), name)
               for each, name in zip(given, names, strict=True)]
    first = sources[0]
    base = [find_checkpoint(given_directory("base", config.base, "training"), config.base_export)
            ] if config.method == "ties" else []
    models = open_alike([*sources, *base])
    weights = merged(models, _method(config))
    exporter = Exporter(context, config.stage, load_tokenizer(first.path), max(each.tokens for each in sources),
                        any(each.chat for each in sources), own_dtype(first.path))
    exporter.write("final", models[0], 0, 0, weights)
    export = exporter.describe("final", 0, 0)
    made = [f"{each.stage}/{each.name}" if each.stage else each.name for each in sources]
    print(f"{config.method} of {', '.join(made)}", flush=True)
    return MergeOutputs(exports=[export], final=export.path, method=config.method, merged=made)


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
