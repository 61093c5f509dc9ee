"""Advantages and losses of reinforcement learning against computations written out another way, and the direction of
their gradient against the expected reward itself."""

from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from torch import Tensor
from transformers import AutoModelForCausalLM

from argosy.model.infer import logprobs as kl
from argosy.model.post.rl import RLHFConfig, networks
from argosy.model.post.rl.learning import means_by_channel
from argosy.model.post.rl.methods import Outcome
from argosy.model.post.rl.methods.ppo import generalized_advantages
from argosy.model.post.rl.prompts import Stream
from argosy.model.post.rl.rewards import Prompt
from tests.posttraining_fixtures import make_checkpoint, make_tokenizer
from tests.processes import run_python

FREE = networks.Clipping("token", 0.8, 1.2, 2.0, 0.0)


@pytest.fixture
def mask() -> Tensor:
    return torch.tensor([[0, 0, 1, 1, 1, 0], [0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 0]], dtype=torch.float)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 0.95), (0.9, 0.5), (1.0, 1.0), (0.99, 0.0)])
def test_advantages_are_the_sum_of_the_discounted_errors(mask: Tensor, gamma: float, lam: float) -> None:
    rewards, values = random(3, 6) * mask, random(3, 6, seed=1)
    advantages, returns = generalized_advantages(rewards, values, mask, gamma, lam)
    for row in range(3):
        at = mask[row].nonzero().flatten().tolist()
        r, v = rewards[row, at].tolist(), values[row, at].tolist()
        v.append(0.0)  # the end of the answer is terminal
        for t in range(len(at)):
            errors = [r[k] + gamma * v[k + 1] - v[k] for k in range(t, len(at))]
            expected = sum((gamma * lam) ** k * error for k, error in enumerate(errors))
            assert advantages[row, at[t]].item() == pytest.approx(expected, abs=1e-5)
            assert returns[row, at[t]].item() == pytest.approx(expected + v[t], abs=1e-5)
    assert torch.all(advantages[mask == 0] == 0)
    assert torch.all(returns[mask == 0] == 0)


def test_means_by_channel_are_of_the_channels_answers_and_of_one_channel_there_are_none() -> None:
    stream = Stream([Prompt([], [1], {"channel": name} if name else {}) for name in ("maths", "", "maths", "")], seed=0)
    places = [place for place in range(4) for _ in range(2)]
    channels = [stream.at(place).channel for place in places]
    nats, tokens = torch.arange(8.0), torch.tensor([1.0, 2, 3, 4, 5, 6, 7, 8])
    expected = {f"rlhf/kl_by_channel/{name}": sum(number for number, of in enumerate(channels) if of == name)
                / sum(number + 1 for number, of in enumerate(channels) if of == name) for name in ("default", "maths")}
    assert means_by_channel(stream, places, {"kl": (nats, tokens)}) == pytest.approx(expected)
    assert means_by_channel(Stream(stream.prompts[:1], seed=0), [0], {"kl": (nats[:1], tokens[:1])}) == {}


def test_tokens_that_the_sampler_found_less_likely_weigh_more_up_to_the_cap() -> None:
    now, sampled = torch.log(torch.tensor([0.5, 0.5, 0.5])), torch.log(torch.tensor([0.5, 0.4, 0.1]))
    unknown = torch.full((3,), torch.nan)  # the policy before the update is the policy as it is
    loss, _ = networks.policy_loss(now, unknown, sampled, now, torch.ones(3), torch.ones(3), numbers=torch.arange(3),
                          clipping=FREE)
    assert loss.item() == pytest.approx(-(1 + 1.25 + 2))


def test_value_loss_takes_the_worse_of_free_and_held() -> None:
    old, new, returns = (random(12, seed=seed) for seed in range(3))
    expected = sum(0.5 * max((n - r) ** 2, (o + min(max(n - o, -0.2), 0.2) - r) ** 2)
                   for o, n, r in zip(old.tolist(), new.tolist(), returns.tolist(), strict=True))
    assert networks.value_loss(new, old, returns, torch.ones(12), clip=0.2).item() == pytest.approx(expected, abs=1e-4)


def test_reinforce_normalises_what_follows_each_token_over_the_rollout(mask: Tensor) -> None:
    scores, divergence = torch.tensor([1.0, 0.0, 0.5]), random(3, 6)
    config = RLHFConfig(method="reinforce++", kl_coef=0.1)
    found, returns = networks.advantages_of(Outcome(scores, divergence, mask), config)
    assert returns is None
    follows = torch.zeros(3, 6)
    for row, at in mask.nonzero().tolist():
        follows[row, at] = scores[row] - 0.1 * (divergence * mask)[row, at:].sum()
    chosen = follows[mask == 1]
    expected = (chosen - chosen.mean()) / chosen.std(correction=0)
    torch.testing.assert_close(found[mask == 1], expected, atol=1e-5, rtol=1e-5)


def test_an_answer_that_is_left_out_weighs_nothing(mask: Tensor) -> None:
    weights, total = networks.token_weights(RLHFConfig(), mask, torch.tensor([0.0, 1.0, 0.0]))
    assert (weights.sum(1).tolist(), total([0, 1, 2])) == ([3, 0, 1], 4)


def test_long_answers_lose_up_to_one_and_those_that_were_cut_more() -> None:
    config = RLHFConfig.model_validate({"max_new_tokens": 10, "length": {"soft_tokens": 4, "penalty": 0.5}})
    lengths, ended = torch.tensor([3.0, 6.0, 8.0, 10.0, 10.0]), torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0])
    assert networks.deductions(config, lengths, ended).tolist() == [0, 0, 0.5, 1.0, 1.5]


def test_kl_estimators_agree_with_the_divergence_of_two_distributions() -> None:
    p_logits, q_logits = random(1, 1, 8), random(1, 1, 8, seed=1)
    p, q = p_logits[0, 0].softmax(-1), q_logits[0, 0].softmax(-1)
    truth = torch.distributions.kl_divergence(torch.distributions.Categorical(probs=p),
                                              torch.distributions.Categorical(probs=q)).item()
    assert kl.exact(p_logits, q_logits).item() == pytest.approx(truth, abs=1e-6)
    # The mean of an estimator under p is a sum over the vocabulary, so no sampling is needed to check it.
    ours, theirs = p.log(), q.log()
    assert (p * kl.k1(ours, theirs)).sum().item() == pytest.approx(truth, abs=1e-6)
    assert (p * kl.k3(ours, theirs)).sum().item() == pytest.approx(truth, abs=1e-6)
    assert (kl.k3(ours, theirs) >= 0).all()
    assert (kl.k1(ours, theirs) < 0).any()


NEW = """
from typing import Annotated
from argosy.core.config.schema import ADDED
from argosy.model.post.{package}.methods import Method

class Part(Method):
    name = "part"
    part: Annotated[float, ADDED] = 0.5
"""
USED = """
import importlib, sys
folder, package, config = sys.argv[1:]
module, methods = (importlib.import_module(f"argosy.model.post.{package}{end}") for end in ("", ".methods"))
methods.__path__.append(folder)
methods.METHODS.forget()
Config = getattr(importlib.reload(module), config)
given = Config.model_validate({"method": "part", "part": 0.25})
assert importlib.import_module("argosy.model.post.config").make_method(given, methods.METHODS).part == 0.25
assert set(given.identity()) - set(Config().identity()) == {"part"}
try:
    Config.model_validate({"part": 0.25})
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize(("package", "config", "method"), [
    ("rl", "RLHFConfig", "ppo"), ("preferences", "PreferenceMethodConfig", "dpo")])
def test_a_new_file_is_a_method_with_fields_of_its_own(tmp_path: Path, package: str, config: str, method: str) -> None:
    (tmp_path / "part.py").write_text(NEW.replace("{package}", package))
    ran = run_python("-c", USED, tmp_path, package, config)
    assert ran.returncode == 0, ran.stderr
    assert f"part=0.25 is not of method={method}" in ran.stdout


SIZE, LONGEST = 4, 10
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "grpo": ("grpo", {}, {"loss_type": "grpo"}),
    "dr_grpo": ("grpo", {"scale": "none", "normalizer": "constant"}, {"loss_type": "dr_grpo", "scale_rewards": "none"}),
    "dapo": ("grpo", {"normalizer": "token", "clip_high": 0.28}, {"loss_type": "bnpo", "epsilon_high": 0.28}),
    "gspo": ("grpo", {"ratio": "sequence_mean"}, {"loss_type": "grpo", "importance_sampling_level": "sequence"}),
    "rloo": ("rloo", {}, {})}


def _reward(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [sum(ids) % 7 / 7 for ids in completion_ids]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("trl") / "base") / "checkpoints" / "final"


def _trainer(checkpoint: Path, out: Path, method: str, own: dict[str, Any]) -> tuple[Any, Any]:
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer
    from trl.trainer.rloo_config import RLOOConfig
    from trl.trainer.rloo_trainer import RLOOTrainer

    kind, arguments = (GRPOTrainer, GRPOConfig) if method == "grpo" else (RLOOTrainer, RLOOConfig)
    data = Dataset.from_dict({"prompt": [[{"role": "user", "content": f"say {word}"}] for word in ("cat", "two")]})
    model = AutoModelForCausalLM.from_pretrained(checkpoint)
    trainer = kind(model=model, reward_funcs=[_reward], train_dataset=data, processing_class=make_tokenizer(),
                   args=arguments(output_dir=str(out), use_cpu=True, bf16=False, report_to="none", beta=0.1,
                                  num_generations=SIZE, max_completion_length=LONGEST, num_iterations=2, seed=1,
                                  per_device_train_batch_size=2 * SIZE, gradient_checkpointing=False, **own))
    return trainer, model


@pytest.mark.parametrize("case", list(CASES))
def test_advantages_and_losses_equal_those_of_trl(case: str, checkpoint: Path, tmp_path: Path) -> None:
    method, choices, own = CASES[case]
    trainer, model = _trainer(checkpoint, tmp_path, method, own)
    moved(model, 0.02, seed=1)  # the policy that samples is not the reference
    records = [row for row in trainer.train_dataset for _ in range(SIZE)]
    made = trainer._generate_and_score_completions(records)
    policy_before = made["old_per_token_logps"] if method == "grpo" else None
    config = RLHFConfig.model_validate({
        "method": method, "group": {"size": SIZE}, "batch_size": 2 * SIZE, "micro_batch_size": 2 * SIZE,
        "max_new_tokens": LONGEST, "kl_coef": 0.1, "loss": choices, "rewards": {"ended": 1.0}})
    rows, mask = _rows(made), made["completion_mask"].float()
    clipping = networks.Clipping.of(config)
    module = networks.PolicyLoss(model, clipping, 1.0, torch.float32, 96)
    old = _score(module, rows, mask)
    if policy_before is not None:
        torch.testing.assert_close(old, policy_before * mask, atol=1e-5, rtol=1e-5)
    start = AutoModelForCausalLM.from_pretrained(checkpoint)
    reference = _score(networks.PolicyLoss(start, clipping, 1.0, torch.float32, 96), rows, mask)
    scores = torch.tensor(_reward([answer for _, answer in rows]))
    apart = (old - reference) if config.choice("kl") == "reward" else torch.zeros_like(old)
    advantages, _ = networks.advantages_of(Outcome(scores, apart, mask), config)
    torch.testing.assert_close(advantages, made["advantages"][:, None] * mask, atol=1e-5, rtol=1e-5)
    moved(model, 0.05, seed=2)  # an update later
    weights, total = networks.token_weights(config, mask, torch.zeros(len(rows)))
    facts = torch.stack([old, old, reference, advantages, weights])[:, mask > 0]
    loss, _ = module(*networks.laid_out(rows, "cpu"), facts)
    model.eval()
    expected = trainer._compute_loss(model, made)
    assert loss.item() / total(range(len(rows))) == pytest.approx(expected.item(), abs=1e-5)


def moved(model: Any, by: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for each in model.parameters():
            each += by * each.std() * torch.randn(each.shape, generator=generator)


def _rows(made: dict[str, Tensor]) -> list[tuple[list[int], list[int]]]:
    parts = [(made[f"{name}_ids"], made[f"{name}_mask"].bool()) for name in ("prompt", "completion")]
    return [tuple(ids[row][kept[row]].tolist() for ids, kept in parts) for row in range(2 * SIZE)]  # type: ignore[misc]


def _score(module: networks.PolicyLoss, rows: list[tuple[list[int], list[int]]], mask: Tensor) -> Tensor:
    found = torch.zeros_like(mask)
    with torch.no_grad():
        found[mask > 0] = module(*networks.laid_out(rows, "cpu"))
    return found
