"""RLOO (Ahmadian et al. 2024): an answer against the others of its group."""

from typing import Any, ClassVar

from argosy.model.post.rl.methods import Method, Outcome


class RLOO(Method):
    """Advantage: each score less the mean of the others of its group."""

    name: ClassVar[str] = "rloo"
    ratio: ClassVar[str] = "sequence"
    normalizer: ClassVar[str] = "answer"
    scale: ClassVar[str] = "none"
    grouped: ClassVar[bool] = True

    def advantages(self, outcome: Outcome, config: Any) -> tuple[Any, Any]:
        groups = outcome.by_group(config.copies, config.kl_coef)
        others = (groups.sum(1, keepdim=True) - groups) / (groups.shape[1] - 1)
        return (groups - others).reshape(-1, 1) * outcome.mask, None
