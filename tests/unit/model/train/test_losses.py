"""Losses against direct computations: the fused output layer, by channel, bits per byte, positions."""

import copy
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from argosy.corpus.tokens.reader import read_channels
from argosy.corpus.tokens.windows import IGNORED
from argosy.model.train.config import TrainConfig
from argosy.model.train.config.model import ModelConfig
from argosy.model.train.engines.torch import TorchEngine
from argosy.model.train.heldout import HeldoutLoss
from argosy.model.train.layers.loss import LossModule, linear_cross_entropy, linear_logprobs
from argosy.model.train.monitoring import LossWindow
from argosy.model.train.parallelism import Group
from argosy.model.train.phase import build_model
from tests.training_fixtures import make_data

TINY = ModelConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
                   num_key_value_heads=1, initializer_range=0.2)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    directory = tmp_path_factory.mktemp("data")
    return directory, make_data(directory, {"en": 60, "zh": 40}, words=12)


@pytest.fixture
def model() -> Any:
    torch.manual_seed(0)
    return build_model(TINY, 320, {"eos_token_id": 1})


@pytest.mark.parametrize("z_loss", [0.0, 1e-2])
def test_fused_output_layer_equals_torch(z_loss: float) -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(600, 16, dtype=torch.float32), torch.randn(50, 16) * 0.5
    targets = torch.randint(0, 50, (600,))
    targets[::7] = IGNORED
    results = []
    for fused in (True, False):
        h, w = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
        if fused:
            loss, nats = linear_cross_entropy(h, w, targets, z_loss)
        else:
            logits = h @ w.T
            nats = F.cross_entropy(logits, targets, reduction="none", ignore_index=IGNORED)
            loss = nats.sum() + z_loss * (logits.logsumexp(1).square() * (targets != IGNORED)).sum()
        (loss / 3).backward()
        results.append((loss.detach(), nats.detach(), h.grad, w.grad))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_bits_per_byte_equals_scoring_each_document_alone(data: tuple[Path, Any], model: Any) -> None:
    directory, tokenizer = data
    channels = read_channels(directory, "heldout")
    module = LossModule(model, 1, torch.float32, 0.0, 400)
    result = HeldoutLoss(channels, 400, 10**6).by_channel(module)
    for name, channel in channels.items():
        nats, tokens, size = 0.0, 0, 0
        for number in range(channel.documents):
            ids = [int(t) for t in channel.tokens[channel.offsets[number] : channel.offsets[number + 1]]][1:-1]
            logits = model(torch.tensor([[tokenizer.bos_token_id, *ids]])).logits[0, :-1].detach().double()
            nats += float(F.cross_entropy(logits, torch.tensor(ids), reduction="sum"))
            tokens += len(ids)
            size += len(tokenizer.decode(ids).encode())
        assert result[name].bpb == pytest.approx(nats / math.log(2) / size, rel=1e-6)
        assert result[name].nats == pytest.approx(nats / tokens, rel=1e-6)
        assert result[name].ppl == pytest.approx(math.exp(nats / tokens), rel=1e-5)


def test_special_tokens_are_neither_scored_nor_bytes(data: tuple[Path, Any], model: Any) -> None:
    channel = read_channels(data[0], "heldout")["en"]
    mark = int(channel.tokens[1])  # the first token of the first document, and wherever else it stands
    marked = replace(channel, special=frozenset({mark}))
    with torch.no_grad():
        model.get_output_embeddings().weight.zero_()  # every token is as likely as any other
    scored = int((channel.tokens != mark).sum()) - 2 * channel.documents
    for length in (7, 400):  # cut documents lose no token
        heldout = HeldoutLoss({"en": marked}, length, 10**6)
        assert sum(row.scored for row in heldout._rows["en"]) == scored
        result = heldout.by_channel(LossModule(model, 1, torch.float32, 0.0, length))["en"]
        assert result.bpb == pytest.approx(scored * math.log2(320) / int(channel.document_bytes.sum()), rel=1e-6)
        assert result.nats == pytest.approx(math.log(320), rel=1e-6)
    positions = HeldoutLoss({"en": marked}, 8, 10**6).by_position(LossModule(model, 1, torch.float32, 0.0, 8))
    assert positions["4_8"] == pytest.approx(math.log(320), rel=1e-6)


def test_loss_by_position_scores_the_same_documents_everywhere(data: tuple[Path, Any], model: Any) -> None:
    channels = read_channels(data[0], "heldout")
    module = LossModule(model, 1, torch.float32, 0.0, 16)
    heldout = HeldoutLoss(channels, 16, 10**6)
    result = heldout.by_position(module)
    assert list(result) == ["0_2", "2_4", "4_8", "8_16"]
    rows = [row.tokens for rows in heldout._rows.values() for row in rows if row.scored == 16]
    tokens = torch.tensor(rows)
    logits = model(tokens[:, :-1]).logits
    nats = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none").reshape(-1, 16)
    assert result["8_16"] == pytest.approx(float(nats[:, 8:].mean().detach()), rel=1e-5)
    assert HeldoutLoss(channels, 10_000, 10**6).by_position(module) == {}


def test_a_spike_of_one_step_is_seen() -> None:
    window = LossWindow(("en", "zh"), Group())
    for en, zh in ((4.0, 9.0), (40.0, 3.0), (2.0, 3.0)):
        window.add(torch.tensor([en, zh]).double(), torch.tensor([2.0, 3.0]).double(), 0)
    values = window.take()
    assert values["train/loss/en"] == pytest.approx(46 / 6)
    assert (values["train/loss_max/en"], values["train/loss_min/en"]) == (20.0, 1.0)
    assert (values["train/loss_max"], values["train/loss_min"]) == (43 / 5, 1.0)


@pytest.mark.parametrize("length", [48, 300])  # attention of its own, and torch's
def test_recomputed_activations_give_the_same_numbers_and_are_not_kept(model: Any, length: int) -> None:
    config = {"sequence_length": length, "dtype": "float32", "document_mask": False}
    inputs = torch.randint(0, 50, (2, length), generator=torch.Generator().manual_seed(0))
    results, kept, flops = [], [], []
    for how, share in (("none", 1), ("selective", 1), ("full", 1), ("full", 0.5)):
        own = TrainConfig(recompute=how, recompute_blocks=share, **config)
        engine = TorchEngine(copy.deepcopy(model), 1, own, Group())
        sizes: list[int] = []

        def keep(tensor: torch.Tensor, sizes: list[int] = sizes) -> torch.Tensor:
            sizes.append(tensor.nbytes)
            return tensor

        with FlopCounterMode(display=False) as counter:
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                loss, _ = engine.module.train()(inputs, inputs)
            loss.backward()
        kept.append(sum(sizes))
        flops.append(counter.get_total_flops())
        results.append([loss.detach(), *(parameter.grad for parameter in engine.module.parameters())])
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=0, atol=0)
    assert max(kept[1:3]) < kept[0] / 2
    assert kept[3] == (kept[0] + kept[2]) / 2
    assert flops[0] == flops[1] < flops[3] < flops[2]  # selective keeps what costs operations


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probabilities_entropies_and_gradients_equal_torchs(temperature: float) -> None:
    torch.manual_seed(0)
    hidden, weight = torch.randn(600, 16, requires_grad=True), torch.randn(50, 16, requires_grad=True)
    targets = torch.randint(0, 50, (600,))
    targets[::7] = IGNORED
    share = torch.randn(600)
    found, entropies = linear_logprobs(hidden, weight, targets, temperature)
    ours = torch.autograd.grad((found * share).sum(), (hidden, weight))

    every = (hidden @ weight.T / temperature).log_softmax(dim=1)
    scored = targets != IGNORED
    expected = every.gather(1, targets.clamp(min=0)[:, None])[:, 0] * scored
    theirs = torch.autograd.grad((expected * share).sum(), (hidden, weight), retain_graph=True)
    assert torch.allclose(found, expected, atol=1e-5)
    assert torch.allclose(entropies, -(every.exp() * every).sum(dim=1) * scored, atol=1e-5)
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4)
