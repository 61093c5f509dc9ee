"""Parameter groups and optimizers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from argosy.training.config import TrainConfig
from argosy.training.muon import MuonAdamW


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """AdamW, or Muon for the hidden layers' matrices with AdamW for the rest.

    Only the hidden layers' matrices decay: decaying norms and embeddings costs stability (OLMo 2, 2025).
    """
    embedding = {id(parameter) for module in model.modules() if isinstance(module, nn.Embedding)
                 for parameter in module.parameters()}
    embedding |= {id(parameter) for name, parameter in model.named_parameters() if name.endswith("lm_head.weight")}
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [p for p in parameters if p.ndim == 2 and id(p) not in embedding]
    others = [p for p in parameters if p.ndim != 2 or id(p) in embedding]
    adamw: dict[str, Any] = {"lr": config.learning_rate, "betas": (config.beta1, config.beta2), "fused": True}
    if config.optimizer == "muon":
        groups = [{"params": matrices, "weight_decay": config.weight_decay, "muon": True},
                  {"params": others, "weight_decay": 0.0}]
        return MuonAdamW(groups, **adamw)
    return torch.optim.AdamW([{"params": matrices, "weight_decay": config.weight_decay},
                              {"params": others, "weight_decay": 0.0}], **adamw)
