"""Supervised fine-tuning: a pretrained checkpoint learns to answer, from conversations.

python -m steps.sft --config '{"checkpoint": DIR, "data": DIR}' --out DIR
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from argosy.posttraining.config import PositiveInt, PosttrainingConfig, PosttrainingOutputs
from argosy.step.command import main
from argosy.step.contract import Step, StepContext
from argosy.store.step_files import given_directory


class SFTConfig(PosttrainingConfig):
    """Config of the step."""

    stage: str = "sft"
    """Name of the checkpoint in results; a second model beside the first has its own."""
    conversations: Annotated[tuple[str, ...], Field(min_length=1)] = ("instructions.jsonl",)
    """Files of the data step to learn from."""
    heldout: str = "instructions_heldout.jsonl"
    """File of the data step that is evaluated before and after."""
    max_new_tokens: PositiveInt = 48
    """Tokens of the longest answer in that evaluation."""


def run(config: SFTConfig, context: StepContext) -> PosttrainingOutputs:
    """Train on the conversations, evaluate before and after, export."""
    from argosy.posttraining.stage import begin, finish, keep_rejects

    source, group = begin(config, context)
    from argosy.data.rejects import Rejects, read_records
    from argosy.posttraining.sft import Conversation, conversation_parser, exact_match, finetune, instruction_loss

    parse = conversation_parser(source.tokenizer, config.max_length or source.context)
    rejects = Rejects()
    data = given_directory("data", config.data, "data")
    train: list[Conversation] = []
    for name in config.conversations:
        train += read_records(data / name, parse, rejects)
    heldout = read_records(data / config.heldout, parse, rejects)[: config.heldout_limit]
    keep_rejects(context, rejects)
    model = source.causal_model()
    decoding = source.decoding(config.max_new_tokens)

    def evaluate() -> dict[str, float]:
        return {
            "heldout/instruction_loss": instruction_loss(model, heldout, source.pad_id, config.micro_batch_size),
            "heldout/exact_match": exact_match(model, source.tokenizer, heldout, decoding),
        }

    before = evaluate()
    context.tracker.metrics(before, step=0)
    progress = finetune(config, context, group, source, model, train)
    return finish(context, config.stage, model, source, progress, before, evaluate(), rejects)


STEP = Step("sft", SFTConfig, run, version=2, needs="train")

if __name__ == "__main__":
    main(STEP)
