"""Config of learning from preferences: the method, and its strengths."""

from typing import Self

from pydantic import Field, model_validator

from argosy.core.config.explain import likely
from argosy.core.config.schema import Rate
from argosy.model.post.config import PreferenceConfig

_OWN = ("beta", "label_smoothing", "gamma", "desirable_weight", "undesirable_weight", "sft_weight")


class PreferenceMethodConfig(PreferenceConfig):
    """Config of the policy's learning from preferences; kto takes answers with a `label` as it takes pairs, which it
    splits in two (`preferences: feedback.jsonl`, `heldout: feedback_heldout.jsonl`)."""

    stage: str = "dpo"
    """Name of the checkpoint in results."""
    method: str = "dpo"
    """dpo (Rafailov et al. 2023), ipo (Azar et al. 2023), robust (Chowdhury et al. 2024), kto (Ethayarajh et al. 2024),
    orpo (Hong et al. 2024), simpo (Meng et al. 2024)."""
    beta: float = Field(default=0.1, gt=0)
    """Strength that holds the policy to the reference (the checkpoint that it starts from); of simpo the scale of the
    reward (2 to 2.5 in its paper), of orpo the weight of the odds."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=0.5)
    """Assumed part of the pairs that are the wrong way round (dpo, robust, simpo)."""
    gamma: float = Field(default=0.5, ge=0)
    """How far the better answer is to be ahead (simpo)."""
    desirable_weight: float = Field(default=1.0, gt=0)
    """Weight of good answers (kto)."""
    undesirable_weight: float = Field(default=1.0, gt=0)
    """Weight of bad answers (kto)."""
    sft_weight: float = Field(default=0.0, ge=0)
    """Weight of the chosen answers' mean negative log-likelihood beside the loss of pairs (Pang et al. 2024), such
    as 1; orpo has its own."""
    learning_rate: Rate = 2e-4

    @model_validator(mode="after")
    def _check_method(self) -> Self:
        from argosy.model.post.preferences.methods import find_method, method_names

        if self.method not in method_names():
            raise ValueError(f"method={self.method!r} is not there; {likely(self.method, method_names())}")
        method = find_method(self.method)
        for name in _OWN:
            if name not in method.fields and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name}={getattr(self, name)} is not of method={self.method}, which reads "
                                 f"{', '.join(sorted(method.fields))}: leave it out")
        return self
