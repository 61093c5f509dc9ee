"""Supervised fine-tuning: a pretrained checkpoint learns to answer, from conversations.

python -m steps.sft --config '{"checkpoint": DIR, "data": DIR}' --out DIR
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from argosy.posttraining.config import PositiveInt, PosttrainingConfig
from argosy.posttraining.export import PosttrainingOutputs
from argosy.step import Step, StepContext
from argosy.step_files import given_directory


class SFTConfig(PosttrainingConfig):
    """Config of the step.

    Attributes:
        stage: what the checkpoint is called in results; a second model beside the first has its own name.
        conversations: files of the data step to learn from.
        heldout: file of the data step that is evaluated before and after.
        max_new_tokens: longest answer in that evaluation.
    """

    stage: str = "sft"
    conversations: Annotated[tuple[str, ...], Field(min_length=1)] = ("instructions.jsonl",)
    heldout: str = "instructions_heldout.jsonl"
    max_new_tokens: PositiveInt = 48


def run(config: SFTConfig, context: StepContext) -> PosttrainingOutputs:
    """Train on the conversations, evaluate before and after, export."""
    from argosy.posttraining.process import prepare_process

    prepare_process(config.seed, config.threads)
    from argosy.posttraining.chat import Conversation, conversation_parser
    from argosy.posttraining.export import finish
    from argosy.posttraining.heldout import exact_match, instruction_loss
    from argosy.posttraining.records import Rejects, read_records
    from argosy.posttraining.sft import finetune
    from argosy.posttraining.source import open_source

    source = open_source("checkpoint", config.checkpoint)
    parse = conversation_parser(source.tokenizer, config.max_length or source.context)
    rejects = Rejects()
    data = given_directory("data", config.data, "data")
    train: list[Conversation] = []
    for name in config.conversations:
        train += read_records(data / name, parse, rejects)
    heldout = read_records(data / config.heldout, parse, rejects)[: config.heldout_limit]
    rejects.write(context.out)
    model = source.causal_model()

    decoding = source.decoding(config.max_new_tokens)

    def evaluate() -> dict[str, float]:
        return {
            "heldout/instruction_loss": instruction_loss(model, heldout, source.pad_id, config.micro_batch_size),
            "heldout/exact_match": exact_match(model, source.tokenizer, heldout, decoding),
        }

    before = evaluate()
    context.tracker.metrics(before, step=0)
    progress = finetune(config, context, source, model, train)
    return finish(context, config.stage, model, source, progress, before, evaluate(), rejects)


STEP = Step("sft", SFTConfig, run, version=2, needs="train")

if __name__ == "__main__":
    STEP.main()
