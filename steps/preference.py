"""Preferences: the policy learns from better and worse answers directly; the alternative to reward model and RLHF.

python -m steps.preference --config '{"checkpoint": SFT_DIR, "data": DIR, "method": "simpo"}' --out DIR"""

from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.model.post.config import PosttrainingOutputs
from argosy.model.post.preferences.config import PreferenceMethodConfig


def run(config: PreferenceMethodConfig, context: StepContext) -> PosttrainingOutputs:
    """Train, evaluate before and after, export."""
    from argosy.model.post.stage import begin

    stage = begin(config, context)
    from argosy.model.post.preferences.examples import read_answers, read_pairs
    from argosy.model.post.preferences.heldout import HeldOut
    from argosy.model.post.preferences.learning import learn
    from argosy.model.post.preferences.methods import make_method

    method = make_method(config)
    examples, heldout = read_answers(stage) if method.single else read_pairs(stage)
    config.amount(len(examples), "examples for training")  # before a model is loaded
    model = stage.model()
    evaluate = HeldOut(method, heldout, stage.source.pad_id, config.micro_batch)
    return stage.run(config.stage, model, evaluate, lambda: learn(stage, model, examples))


STEP = Step("preference", PreferenceMethodConfig, run, version=3, needs="train")

if __name__ == "__main__":
    main(STEP)
