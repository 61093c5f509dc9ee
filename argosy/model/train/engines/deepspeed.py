"""DeepSpeed's ZeRO (Rajbhandari et al. 2020), with offload to the CPU's memory (Ren et al. 2021) or to NVMe
(Rajbhandari et al. 2021), around our module and our optimizer; autocast stays ours, so the arithmetic is torch's."""

import logging
from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from argosy.core.errors import InputError
from argosy.model.train.config import TrainConfig
from argosy.model.train.engines.base import Engine, Wrap
from argosy.model.train.engines.parts import WEIGHT, Held, Parts, everywhere
from argosy.model.train.engines.zero import Moments, check_locked, own_folder, prepare_environment, settings
from argosy.model.train.optim import UpdateSize, make_optimizer, set_rate
from argosy.model.train.parallelism import Group
from argosy.model.weights.drawn import Numbers
from argosy.model.weights.unfilled import numbers_of

MOMENTS = ("exp_avg", "exp_avg_sq")


class DeepSpeedEngine(Engine):
    """Stage 0 partitions nothing, 1 the optimizer, 2 gradients too, 3 weights too."""

    _partitioned: Any = None
    """The first parameter that was partitioned before DeepSpeed began, which has how."""

    def __init__(self, model: Any, channels: int, config: TrainConfig, group: Group, wrap: Wrap = None) -> None:
        _check_biases(model, config)
        largest = max(-(-each.numel() // group.world) for each in model.parameters())
        trained = sum(-(-each.numel() // group.world) for each in model.parameters() if each.requires_grad)
        check_locked(config, largest, trained)
        self._settings = settings(config, group.world, largest, own_folder(config.zero.nvme_path))
        super().__init__(model, channels, config, group, wrap)
        prepare_environment(group.device.type != "cpu")
        import deepspeed

        logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
        # DeepSpeed would compile this shared-memory collective at the first use and fail without a compiler.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        back_end = dist.get_default_backend_for_device(group.device)
        deepspeed.init_distributed(back_end, auto_mpi_discovery=False, verbose=False)
        self._accumulation = config.global_batch_size // (config.micro_batch * group.world)
        self._fill(model)
        given: Any = numbers_of(model) or {name: each.detach().cpu() for name, each in self._named if self._halved}
        if config.zero.stage == 3 and self._partitioned is None:  # by itself it takes bfloat16 for NVMe on a CPU
            for _, parameter in self._named if self._halved else ():
                parameter.data = parameter.data.bfloat16()
            deepspeed.zero.Init(module=self.module, config_dict_or_path=self._settings)
        head = model.get_output_embeddings()
        if config.zero.stage == 3 and head is not None:  # the loss reads its weight outside of its own forward
            deepspeed.zero.register_external_parameter(self.module, head.weight)
        self._engine = deepspeed.initialize(model=self.module, optimizer=make_optimizer(model, config),
                                            config=self._settings)[0]
        self._moments = Moments(self._engine.optimizer, on_disk=bool(config.zero.nvme_path))
        for name, parameter in self._named if self._halved else ():  # DeepSpeed begins with rounded ones
            self._set(parameter, given[name], None)

    @property
    def _halved(self) -> bool:
        """Whether DeepSpeed computes with bfloat16 weights, beside the optimizer's float32 ones."""
        return self.config.zero.param_dtype == "bfloat16"

    def _take(self, parameter: Any, name: str, numbers: Numbers, key: str) -> None:
        whole = numbers[key]
        parameter.copy_(whole)
        if self.config.zero.stage < 3:
            return
        numbers.check(key, whole)  # before it is cut up
        if self._halved:
            parameter.data = parameter.data.bfloat16()
        if self._partitioned is None:
            from deepspeed.runtime.zero import Init

            Init(module=torch.nn.ParameterList([parameter]), config_dict_or_path=self._settings)
            self._partitioned = parameter
        else:
            self._partitioned.convert_to_zero_parameters(param_list=[parameter])

    @property
    def holds_whole(self) -> bool:
        return self.config.zero.stage < 3 and not self._halved

    def _backward(self, part: tuple[Any, ...], targets: Tensor, *, last: bool) -> Tensor:
        sums: Tensor
        loss, sums = self._engine(*part)
        # DeepSpeed averages over processes and micro-batches; ours is the mean over the global batch's targets.
        self._engine.backward(loss / targets * self.group.world * self._accumulation)
        if not last:
            self._engine.step()
        return sums

    def _update(self, learning_rate: float) -> Tensor:
        set_rate(self._engine.optimizer, learning_rate)
        norm = None
        if not self.config.zero.stage:  # gradients are whole after the last backward, and DeepSpeed tells no norm
            parameters = [parameter for _, parameter in self._named]
            norm = torch.nn.utils.clip_grad_norm_(parameters, self.config.max_grad_norm, foreach=True)
        with self._compared(self._partitions() if self._halved else (each for _, each in self._named)):
            self._engine.step()
        return torch.as_tensor(self._engine.get_global_grad_norm()) if norm is None else norm

    @cached_property
    def _size(self) -> UpdateSize | None:
        if self._halved:
            return UpdateSize(self.group, [((each.numel() * self.group.rank,), (each.numel() * self.group.world,), 1)
                                           for each in self._partitions()])
        if self.config.zero.stage < 3:
            return super()._size
        if self.config.zero.offload == "all" and self.config.zero.nvme_path:
            print("the size of updates is not measured: the weights are on NVMe", flush=True)
            return None
        return UpdateSize(self.group, [((each.ds_tensor.numel() * self.group.rank,), (each.ds_numel,), 1)
                                       for _, each in self._named])

    @property
    def holds_parts(self) -> bool:
        return False

    @property
    def _states(self) -> dict[Any, Any]:
        """Return the state of torch's optimizer, which has DeepSpeed's flat partitions for parameters."""
        optimizer = self._engine.optimizer
        states: dict[Any, Any] = (optimizer.optimizer if self.config.zero.stage else optimizer).state
        return states

    def _whole(self, tensor: Tensor, name: str) -> Tensor:
        from deepspeed.runtime.zero import GatheredParameters
        from deepspeed.utils import safe_get_full_fp32_param

        if self._halved and (whole := safe_get_full_fp32_param(tensor)) is not None:
            return whole  # type: ignore[no-any-return]
        if not hasattr(tensor, "ds_id"):
            return tensor
        with GatheredParameters([tensor]):
            return tensor.detach().clone()

    def save(self, directory: Path, *, weights: bool = True) -> None:
        super().save(directory, weights=weights)
        self._moments.show(None)

    def _moment(self, parameter: Any, kind: str) -> Tensor:
        from deepspeed.utils import safe_get_full_optimizer_state

        self._moments.show(parameter)
        whole: Tensor = safe_get_full_optimizer_state(parameter, kind)
        return whole

    def _state(self) -> Iterator[Held]:
        self._link()
        for name, parameter in self._named:
            place = everywhere(getattr(parameter, "ds_shape", parameter.shape))
            yield f"{WEIGHT}/{name}", place, partial(self._whole, parameter, name)
            if self.config.zero.stage:
                for kind in MOMENTS:
                    yield f"{kind}/{name}", place, partial(self._moment, parameter, kind)
                yield f"step/{name}", everywhere(()), lambda: next(iter(self._states.values()))["step"].clone()
            else:
                yield from ((f"{kind}/{name}", everywhere(value.shape), value.clone)
                            for kind, value in sorted(self._states[parameter].items()))

    def _link(self) -> None:
        """Have stages 1 and 2 find each parameter's part of the flat moments: DeepSpeed looks when its first group has
        stepped, too early for the others."""
        if self.config.zero.stage in (1, 2):
            self._engine.optimizer._hp_optimizer_states_linked = False
            self._engine.optimizer._lazy_init_hp_params_optimizer_state()

    def _restore(self, parts: Parts, *, weights: bool) -> None:
        staged = bool(self.config.zero.stage)
        if staged:
            steps = parts[f"step/{self._named[0][0]}"]
            for group, flat in enumerate(self._partitions()):
                self._moments.show_group(group)
                self._begin(flat, steps)
            self._link()
        for name, parameter in self._named:
            self._moments.show(parameter)
            if weights and staged:
                self._set(parameter, parts[f"{WEIGHT}/{name}"], None)
            elif weights:
                parameter.data.copy_(parts[f"{WEIGHT}/{name}"])
            if staged:
                for kind in MOMENTS:
                    self._set(parameter, parts[f"{kind}/{name}"], kind)
            else:
                self._states[parameter] = {kind: parts[f"{kind}/{name}"].to(parameter.device)
                                           for kind in parts.kinds(name)}
        self._moments.show(None)

    def _partitions(self) -> list[Tensor]:
        """List the flat tensors that this process's optimizer updates."""
        optimizer = self._engine.optimizer
        if self.config.zero.stage == 3:
            return list(optimizer.fp32_partitioned_groups_flat)
        if self.config.zero.stage == 1 and self._halved and self.config.zero.offload == "none":
            return list(optimizer.fp32_groups_flat_partition)
        return list(optimizer.single_partition_of_fp32_groups)

    def _begin(self, flat: Tensor, steps: Tensor) -> None:
        """Make a flat partition's moments, which torch makes at its first step."""
        state = self._states[flat]
        for kind in MOMENTS:
            state.setdefault(kind, torch.zeros_like(flat))
        state["step"] = steps.to(flat.device, copy=True)

    def _set(self, parameter: Any, value: Tensor, kind: str | None) -> None:
        """Write a weight (`kind` None) or a moment, where this process holds a part of it."""
        from deepspeed.utils import safe_set_full_fp32_param, safe_set_full_optimizer_state

        value = value.to(self.group.device)
        if self.config.zero.stage == 3:
            self._set_part(parameter, value, kind)
        elif kind is None:
            safe_set_full_fp32_param(parameter, value)
            parameter.data.copy_(value)
        else:
            safe_set_full_optimizer_state(parameter, value, kind)

    def _set_part(self, parameter: Any, value: Tensor, kind: str | None) -> None:
        """Write this process's part in stage 3: parts are of one size, the last one padded. DeepSpeed's own setters
        take a weight on NVMe for one of a single number."""
        from deepspeed.runtime.zero import GatheredParameters

        size = parameter.partition_numel()
        flat = torch.nn.functional.pad(value.flatten(), (0, size * self.group.world - value.numel()))
        own = flat.narrow(0, size * self.group.rank, size)
        self._engine.optimizer._get_fp32_opt_state_partition(parameter, False, kind)[0].data.copy_(own)
        if kind is None:
            with GatheredParameters([parameter], modifier_rank=0):  # which writes to NVMe too
                parameter.data.copy_(value)


def _check_biases(model: Any, config: TrainConfig) -> None:
    """Refuse what would be wrong gradients: stage 3 adds a bias in place to the product that selective recomputation
    keeps, so that the recomputed output has it twice. Raises InputError."""
    if config.zero.stage < 3 or config.recompute != "selective":
        return
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and module.bias is not None:
            raise InputError(f"recompute=selective under ZeRO-3 is for layers without biases, and {name} of this "
                             f"{model.config.model_type} model has one: set recompute=full, engine.stage=2, "
                             "or engine=fsdp")
