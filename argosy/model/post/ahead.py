"""The amount of a post-training stage ahead of it: what its own readers make of its data, without a model."""

from contextlib import redirect_stdout
from io import StringIO
from types import SimpleNamespace
from typing import Any, cast

from argosy.corpus.tokens.amounts import Amount
from argosy.model.post.config import PosttrainingConfig, PreferenceConfig, SFTConfig
from argosy.model.post.preferences import PreferenceMethodConfig
from argosy.model.post.rl import RLHFConfig

_NO_CONTEXT = cast(Any, SimpleNamespace(rank=1))  # a rank that writes nothing


def amount_ahead(config: PosttrainingConfig) -> Amount:
    """Read the data of a step whose `checkpoint` and `data` are done, and return what its training comes to; prompts
    that a reward refuses are still among those of RL.

    Raises InputError: the step would be refused, for its data or its batch."""
    from argosy.model.post.stage import Stage, open_source
    from argosy.model.weights.templates import use_template

    source = open_source("checkpoint", config.checkpoint, None)
    if config.template:
        use_template(source.tokenizer, config.template)
    with redirect_stdout(StringIO()):
        stage = Stage(config, _NO_CONTEXT, cast(Any, None), source)
        if isinstance(config, SFTConfig):
            return _of_rows(stage, config)
        if isinstance(config, RLHFConfig):
            return _of_prompts(stage, config)
        return _of_examples(stage, config)


def _of_rows(stage: Any, config: SFTConfig) -> Amount:
    from argosy.model.post.sft import amount_of, make_rows, pretraining_samples, sample_parser

    tokenizer, longest = stage.source.tokenizer, config.max_length or stage.source.context
    samples = stage.read(sample_parser(tokenizer, longest), *config.conversations)
    if config.pretraining_share:
        samples += pretraining_samples(config, tokenizer, sum(len(sample.ids) for sample in samples))
    return amount_of(config, make_rows(config, samples, longest))


def _of_examples(stage: Any, config: PosttrainingConfig) -> Amount:
    from argosy.model.post.preferences.examples import Example, read_answers, read_pairs
    from argosy.model.post.preferences.methods import METHODS

    assert isinstance(config, PreferenceConfig)
    single = isinstance(config, PreferenceMethodConfig) and METHODS[config.method].single
    examples: list[Example] = [*(read_answers(stage) if single else read_pairs(stage))[0]]
    tokens = sum(len(ids) for example in examples for ids in example.sides)
    return config.amount(len(examples), "examples for training", tokens)


def _of_prompts(stage: Any, config: RLHFConfig) -> Amount:
    from argosy.model.post.rl.prompts import hold_out, prompt_parser, room_of_prompts

    room = room_of_prompts(config.max_length or stage.source.context, config.max_new_tokens)
    prompts = stage.read(prompt_parser(stage.source.tokenizer, room), config.prompts)
    return config.amount_of_prompts(len(hold_out(prompts, config.heldout_limit, config.seed)[0]))
