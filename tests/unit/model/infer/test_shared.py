"""Beginnings that a batch shares: the same answers as each prompt alone, for the models where that is exact."""

from random import Random

import pytest
import torch
import transformers

from argosy.model.infer.batches import batches_of, beginning
from argosy.model.infer.decode import Decoding, TransformersDecoder
from argosy.model.infer.shared import shares_prefix

SIZE = {"vocab_size": 90, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
SHOTS = [[7, 3, 9, 11, 5] * 9, [4, 4, 8, 1, 60] * 11]
PROMPTS = [[*SHOTS[n % 2], *Random(n).choices(range(4, 90), k=3 + n % 5)] for n in range(14)] + [[5, 6, 7], [9]]


def answers(model: object, prompts: list[list[int]], *, sharing: bool, **fields: float) -> list[list[int]]:
    decoding = Decoding([0], 2, 9, scored=False, **fields)
    decoder = TransformersDecoder(model, sharing=sharing)
    assert decoder.shares is sharing
    return decoder(prompts, [[n, n + 50] for n in range(len(prompts))], decoding).tokens


@pytest.mark.parametrize("temperature", [0.0, 1.2])
@pytest.mark.parametrize("heads", [4, 2, 1])
def test_answers_after_a_shared_beginning_are_those_of_each_prompt_alone(heads: int, temperature: float) -> None:
    torch.manual_seed(0)
    model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SIZE, num_key_value_heads=heads)).eval()
    for start in (0, 1):  # those of one beginning
        prompts = PROMPTS[start:14:2]
        assert beginning(prompts) >= len(SHOTS[start])
        alone = [each for n, prompt in enumerate(prompts) for each in TransformersDecoder(model)(
            [prompt], [[n, n + 50]], Decoding([0], 2, 9, scored=False, temperature=temperature)).tokens]  # fmt: skip
        assert answers(model, prompts, sharing=True, temperature=temperature) == alone


def test_it_is_tried_which_models_can_share() -> None:
    torch.manual_seed(0)
    small = {"vocab_size": 90, "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2}
    plain = transformers.GPT2Config(vocab_size=90, n_embd=32, n_layer=2, n_head=4)
    assert shares_prefix(transformers.GPT2LMHeadModel(plain).eval())
    capped = transformers.Gemma2Config(**SIZE, num_key_value_heads=2, head_dim=8)  # scores are capped
    assert not shares_prefix(transformers.Gemma2ForCausalLM(capped).eval())
    opt = transformers.OPTConfig(**small, ffn_dim=48, word_embed_proj_dim=32)
    model = transformers.OPTForCausalLM(opt).eval()
    own = model.config._attn_implementation
    shares_prefix(model)
    assert model.config._attn_implementation == own


def test_prompts_that_begin_alike_are_one_batch_each_prompt_once_with_all_its_seeds() -> None:
    requests = [(tuple(prompt), seed) for prompt in PROMPTS for seed in (1, 2)]
    batches = batches_of([*requests, *requests], 9, 4096, sharing=True)
    assert sorted((prompt, seed) for batch in batches for prompt, seeds in batch for seed in seeds) == sorted(requests)
    assert sorted(len(batch) for batch in batches) == [2, 7, 7]
    few = batches_of(requests, 9, 60, sharing=True)  # tokens but the beginning: (8 + 9) * 2 seeds a prompt
    assert max(len(batch) for batch in few) == 2
    assert {len(batch) for batch in batches_of(requests, 9, 60, sharing=False) if len(batch[0][0]) > 9} == {1}


def test_a_prompt_that_shares_half_of_a_beginning_does_not_spoil_it_for_the_others() -> None:
    start = [9] * 80
    alike = [(*start, 20 + n, 5) for n in range(10)]
    odd = [(*start[:40], 3, *start[:39], 7), (*start[:40], 60, *start[:39], 7)]  # one sorted before, one after
    for requests in ([*alike, *odd], [*odd, *alike]):
        batches = batches_of([(prompt, 0) for prompt in requests], 4, 4096, sharing=True)
        assert sorted(beginning([prompt for prompt, _ in batch]) for batch in batches) == [40, 80]
    few = batches_of([(prompt, 0) for prompt in (*alike[:3], *odd)], 4, 4096, sharing=True)
    assert [beginning([prompt for prompt, _ in batch]) for batch in few] == [40]  # too few for two


def test_a_cpu_reads_prompts_of_other_lengths_in_other_batches() -> None:
    requests = [((4 + n, *range(length)), 0) for n in range(6) for length in (20, 400)]
    lengths = [[len(prompt) for prompt, _ in batch] for batch in batches_of(requests, 8, 9999, sharing=False, cpu=True)]
    assert lengths == [[401] * 6, [21] * 6]
    assert len(batches_of(requests, 8, 9999, sharing=False)) == 1
    assert len(batches_of(requests, 999, 99999, sharing=False, cpu=True)) == 1  # steps cost more than padding
