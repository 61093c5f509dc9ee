"""Supervised fine-tuning: a pretrained checkpoint learns to answer, from conversations.

python -m steps.sft --config '{"checkpoint": DIR, "data": DIR}' --out DIR"""

from typing import Any

from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.corpus.data.split import CONVERSATIONS
from argosy.model.post import HELDOUT
from argosy.model.post.config import PosttrainingOutputs, SFTConfig
from argosy.model.train.checks import TRAINING, check_tuning


def run(config: SFTConfig, context: StepContext) -> PosttrainingOutputs:
    """Train on the conversations, evaluate before and after, export."""
    from argosy.model.post.stage import begin

    stage = begin(config, context)
    from argosy.model.post import sft

    source = stage.source
    longest = config.max_length or source.context
    train = stage.read(sft.sample_parser(source.tokenizer, longest), *config.conversations)
    heldout = sft.choose(stage.read(sft.sample_parser(source.tokenizer, longest, prompts=True), config.heldout),
                         config.heldout_limit)
    stage.keep_rejects()
    if config.pretraining_share:
        train += sft.pretraining_samples(config, source.tokenizer, sum(len(sample.ids) for sample in train))
    rows = sft.make_rows(config, train, longest)
    sft.amount_of(config, rows)  # before a model is loaded
    model = stage.model()
    decoding = source.decoding(config.max_new_tokens)

    def evaluate(model: Any) -> dict[str, float]:
        return {**sft.instruction_loss(model, heldout), **sft.exact_match(model, source.tokenizer, heldout, decoding)}

    return stage.run(model, evaluate, lambda: sft.finetune(stage, model, rows, evaluate))


STEP = Step("sft", SFTConfig, run, version=5, needs="train", makes_model=True, check=check_tuning,
            metrics={**TRAINING, **HELDOUT}, methods=("sft",),
            files={"conversations": CONVERSATIONS, "heldout": CONVERSATIONS})

if __name__ == "__main__":
    main(STEP)
