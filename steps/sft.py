"""Supervised fine-tuning: a pretrained checkpoint learns to answer, from conversations.

python -m steps.sft --config '{"checkpoint": DIR, "data": DIR}' --out DIR"""

from typing import Annotated, Any

from pydantic import Field

from argosy.posttraining.config import PositiveInt, PosttrainingConfig, PosttrainingOutputs
from argosy.step.command import main
from argosy.step.contract import Step, StepContext


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
    from argosy.posttraining.stage import begin

    stage = begin(config, context)
    from argosy.posttraining.sft import conversation_parser, exact_match, finetune, instruction_loss

    source = stage.source
    parse = conversation_parser(source.tokenizer, config.max_length or source.context)
    train = stage.read(parse, *config.conversations)
    heldout = stage.read(parse, config.heldout)[: config.heldout_limit]
    stage.keep_rejects()
    model = source.causal_model()
    decoding = source.decoding(config.max_new_tokens)

    def evaluate(model: Any) -> dict[str, float]:
        return {
            "heldout/instruction_loss": instruction_loss(model, heldout, source.pad_id, config.micro_batch_size),
            "heldout/exact_match": exact_match(model, source.tokenizer, heldout, decoding),
        }

    return stage.run(config.stage, model, evaluate, lambda: finetune(stage, model, train))


STEP = Step("sft", SFTConfig, run, version=3, needs="train")

if __name__ == "__main__":
    main(STEP)
