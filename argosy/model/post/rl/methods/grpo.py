"""GRPO (Shao et al. 2024): an answer against its group."""

from typing import Any, ClassVar

from argosy.model.post.rl.methods import Method, Outcome


class GRPO(Method):
    """Advantage: each score less the mean of its group."""

    name: ClassVar[str] = "grpo"
    normalizer: ClassVar[str] = "answer"
    scale: ClassVar[str] = "group"
    kl: ClassVar[str] = "loss"
    grouped: ClassVar[bool] = True

    def advantages(self, outcome: Outcome, config: Any) -> tuple[Any, Any]:
        groups = outcome.by_group(config.copies, config.kl_coef)
        return (groups - groups.mean(1, keepdim=True)).reshape(-1, 1) * outcome.mask, None
