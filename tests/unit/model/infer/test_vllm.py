"""The vLLM backend against a stand-in of vLLM's interface that computes with transformers."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from argosy.core.errors import InputError
from argosy.model.infer.backends import open_model
from argosy.model.infer.model import LanguageModel
from argosy.model.weights.checkpoint import Checkpoint
from steps.evaluate import EvaluateConfig
from tests.evaluation_fixtures import save_checkpoint

PAIRS = [("The capital of", " France"), ("", "river stone"), ("长江", "二十四"), ("x " * 300, "long"), ("river", "s")]


class LLM:
    """vllm.LLM as of 0.11: prompts of token ids, positions that end a token before the model's, dicts by token."""

    def __init__(self, model: str, seed: int, tensor_parallel_size: int, max_logprobs: int,
                 enable_prefix_caching: bool, trust_remote_code: bool) -> None:
        assert not trust_remote_code
        self.model: Any = AutoModelForCausalLM.from_pretrained(model).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        self.max_logprobs, self.ends = max_logprobs, 0
        self.llm_engine = SimpleNamespace(engine_core=SimpleNamespace(shutdown=self._end))

    def _end(self) -> None:
        self.ends += 1

    def generate(self, prompts: list[dict[str, Any]], sampling_params: Any, use_tqdm: bool,
                 lora_request: None) -> list[Any]:
        each = sampling_params if isinstance(sampling_params, list) else [sampling_params] * len(prompts)
        self.seeds = [given.pop("seed", None) for given in each]
        return [self._one(prompt["prompt_token_ids"], **given) for prompt, given in zip(prompts, each, strict=True)]

    def _one(self, ids: list[int], temperature: float, max_tokens: int, prompt_logprobs: int | None = None,
             logprobs: int | None = None, **more: Any) -> Any:
        assert len(ids) + 1 <= self.model.config.max_position_embeddings  # its own check
        assert max(prompt_logprobs or 0, logprobs or 0) <= self.max_logprobs
        with torch.no_grad():
            values = self.model(torch.tensor([ids])).logits[0].log_softmax(-1)
        ranks = values.argsort(-1, descending=True).argsort(-1) + 1

        def entry(at: int, token: int) -> Any:
            return SimpleNamespace(logprob=float(values[at, token]), rank=int(ranks[at, token]), decoded_token=None)

        before = [{token: entry(at, token) for token in {ids[at + 1], int(values[at].argmax())}}
                  for at in range(len(ids) - 1)]
        every = {token: entry(-1, token) for token in range(values.shape[1])} if logprobs else None
        made: list[int] = []
        if more.get("stop") is not None:
            while len(made) < max_tokens:
                with torch.no_grad():
                    made.append(int(self.model(torch.tensor([ids + made])).logits[0, -1].argmax()))
                if made[-1] in more["stop_token_ids"] or any(s in self.tokenizer.decode(made) for s in more["stop"]):
                    break
        output = SimpleNamespace(token_ids=made, logprobs=[every] if every else None)
        return SimpleNamespace(prompt_logprobs=[None, *before] if prompt_logprobs else None, outputs=[output])


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("vllm")
    module.LLM, module.SamplingParams, module.TokensPrompt = LLM, dict, dict
    module.__version__ = "0.11.0"
    monkeypatch.setitem(sys.modules, "vllm", module)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return save_checkpoint(tmp_path_factory.mktemp("vllm") / "model")


@pytest.mark.usefixtures("vllm")
def test_scores_distributions_and_texts_are_those_of_transformers(checkpoint: Checkpoint, tmp_path: Path) -> None:
    ours = LanguageModel.load(checkpoint)
    with open_model(checkpoint, tmp_path / "state", backend="vllm") as model:
        engine: Any = model._engine  # type: ignore[attr-defined]
        found, expected = model.loglikelihood(PAIRS), ours.loglikelihood(PAIRS)
        short = [n for n in range(len(PAIRS)) if n != 3]  # its context has a token or two fewer there
        assert [found[n].logprob for n in short] == pytest.approx([expected[n].logprob for n in short], abs=1e-4)
        assert [found[n].greedy for n in short] == [expected[n].greedy for n in short]
        assert found[3].tokens == expected[3].tokens
        contexts = [tokens or (ours.prefix_token,) for tokens in ours.encode(["river", ""])]
        distributions = dict(ours.scorer.next_token(contexts))
        for index, logprobs in model.scorer.next_token(contexts):
            assert logprobs.tolist() == pytest.approx(distributions[index].tolist(), abs=1e-4)
        prompts, stops = ["river", "长江 a"], ["e", "号"]
        assert model.generate(prompts, stops, 12) == ours.generate(prompts, stops, 12)
        assert engine.seeds == [0, 0]
        model.generate_tokens(prompts, [0], 2, temperature=1.0, seed=3)
        assert len({*engine.seeds, 0}) == 3
        assert all(-(2**63) <= seed < 2**63 for seed in engine.seeds)
        assert not engine.ends
    assert engine.ends == 1  # its memory is for the next checkpoint of a batch


def test_without_vllm_it_says_how_to_install_it(checkpoint: Checkpoint, tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with (pytest.raises(InputError, match="not installed: `pip install vllm`"),
          open_model(checkpoint, tmp_path / "state", backend="vllm")):
        pass


def test_the_number_of_gpus_that_share_a_model_counts_in_the_digest_and_that_of_helpers_does_not() -> None:
    assert EvaluateConfig(processes=4).identity() == EvaluateConfig().identity()
    one = EvaluateConfig(backend="vllm").identity()
    assert EvaluateConfig(backend="vllm", processes=4).identity() == {**one, "processes": 4}
