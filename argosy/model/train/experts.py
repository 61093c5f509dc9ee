"""Experts of a new model: how many, how tokens are routed to them, and the weights of their losses."""

from typing import Annotated

from pydantic import Field

from argosy.core.config.schema import Config
from argosy.model.train.sizing.architecture import MIXTURES

PositiveInt = Annotated[int, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]


class ExpertsConfig(Config):
    """Experts in the place of a block's feed-forward layer (Shazeer et al. 2017); every token is sent to some.

    What transformers calls these fields, by type of model, is in argosy/model/train/sizing/architecture.py."""

    count: Annotated[int, Field(ge=2)]
    """Experts of a block."""
    per_token: PositiveInt = 2
    """Experts that a token is sent to; none has a capacity, so that no token is dropped."""
    intermediate_size: Annotated[int, Field(ge=0)] = 0
    """Width of an expert; 0 is the model's `intermediate_size`."""
    dense_layers: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Blocks (0 is the first) without experts, of the model's `intermediate_size`; of qwen3_moe alone."""
    normalized: bool = True
    """The weights of a token's experts sum to 1; mixtral knows no other way."""
    balance_loss: Weight = 0.001
    """Weight of the balance loss (Fedus et al. 2021), which keeps experts from being left out."""
    router_z_loss: Weight = 0.0
    """Weight of the routers' log(Z)^2 (Zoph et al. 2022), which keeps their logits from drifting."""

    def problem(self, kind: str, layers: int) -> str:
        """Say what does not go together with a model of type `kind` and so many `layers`; "" where all does.

        `kind`: the config's model_type. `layers`: its num_hidden_layers, all of which are counted from 0."""
        if kind not in MIXTURES:
            return (f"experts are of model_type {' or '.join(MIXTURES)}, and this is {kind}: change the one, or leave "
                    "the other out")
        if self.per_token > self.count:
            return (f"experts.per_token={self.per_token} exceeds experts.count={self.count}, allowed: 1 to "
                    f"{self.count}")
        if kind != "qwen3_moe" and (self.dense_layers or not self.normalized):
            name = "dense_layers" if self.dense_layers else "normalized=false"
            return f"experts.{name} is of model_type qwen3_moe, and this is {kind}: leave it out"
        wrong = [each for each in self.dense_layers if each >= layers]
        if wrong or len(set(self.dense_layers)) == layers:
            return (f"experts.dense_layers={list(self.dense_layers)} of num_hidden_layers={layers}, allowed: some of 0 "
                    f"to {layers - 1}, not all")
        return ""


def experts_problem(experts: ExpertsConfig | None, kind: str, layers: int) -> str:
    """Say what is wrong with the experts of a model of type `kind`, which may have none; "" where nothing is."""
    if experts is not None:
        return experts.problem(kind, layers)
    if kind in MIXTURES:
        return f"model_type={kind} needs experts, such as experts={{count: 8, per_token: 2}}; a dense one is qwen3"
    return ""
