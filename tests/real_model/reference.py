"""What transformers alone computes with a model: logits, losses, greedy text."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Reference:
    """A model in float32 and its tokenizer."""

    model: Any
    tokenizer: Any

    @classmethod
    def of(cls, path: Path) -> "Reference":
        """Load a directory, or a GGUF file."""
        from transformers import AutoModelForCausalLM, AutoTokenizer

        where: dict[str, Any] = {"gguf_file": path.name} if path.is_file() else {}
        folder = path.parent if path.is_file() else path
        model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32", **where).eval()
        return cls(model, AutoTokenizer.from_pretrained(folder, **where))

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def turn(self, content: str) -> str:
        """A user's turn in the chat template, up to where the model answers."""
        messages = [{"role": "user", "content": content}]
        return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    def logits(self, ids: Sequence[int]) -> Any:
        """Logits after each token, (tokens, vocabulary)."""
        return logits(self.model, ids)

    def sentence(self, text: str) -> float:
        """Log-probability of a text as a document of its own."""
        ids = [self.tokenizer.bos_token_id, *self.ids(text)]
        found = self.logits(ids).double().log_softmax(-1)
        return float(sum(found[at, token] for at, token in enumerate(ids[1:])))

    def greedy(self, text: str, tokens: int) -> str:
        """What greedy decoding writes after a text, without special tokens."""
        import torch

        ids = torch.tensor([self.ids(text)])
        made = self.model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens,
                                   do_sample=False, pad_token_id=self.tokenizer.eos_token_id)[0]
        return str(self.tokenizer.decode(made[ids.shape[1] :], skip_special_tokens=True))


def logits(model: Any, ids: Sequence[int]) -> Any:
    """Logits after each token of a model of transformers, (tokens, vocabulary)."""
    import torch

    with torch.no_grad():
        return model(input_ids=torch.tensor([list(ids)])).logits[0].float()
