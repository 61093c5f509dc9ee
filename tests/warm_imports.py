"""What the server of tests/warm.py imports, once, in place of each process that it forks."""

import gc
from importlib import import_module

_NAMES = """
deepspeed deepspeed.ops.op_builder.all_ops mlflow peft scipy.stats torch._inductor.compile_fx
torch.utils.cpp_extension torch.distributed.elastic.agent.server.local_elastic_agent
transformers.convert_slow_tokenizer transformers.models.auto.tokenization_auto
transformers.models.llama.modeling_llama transformers.models.qwen3_moe.modeling_qwen3_moe argosy.core.step.command
argosy.core.tracking.__main__ argosy.corpus.cleaning.kernels argosy.model.infer.backends
argosy.model.post.preferences.rewards argosy.model.post.rl.learning argosy.model.post.rl.rewards argosy.model.post.sft
argosy.model.train.engines.deepspeed argosy.model.train.phase evals.runner s3fs workflows.cli
"""
for _name in _NAMES.split():
    import_module(_name)
gc.freeze()  # what is shared with the forks is not copied for the sake of a mark
