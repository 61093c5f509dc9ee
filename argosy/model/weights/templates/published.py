"""Chat templates by name, in their published forms, with the assistant's words and end of turn between
{% generation %} and {% endgeneration %}: the files NAME.jinja beside this one, whose lines are joined.

Sources: ChatML (OpenAI 2023) with the calls of tools that Hermes and Qwen2.5 write; Llama 3.1's prompt format (Meta
2024); Mistral-7B-Instruct-v0.1; Zephyr (Tunstall et al. 2023); Gemma (2024). A template that has no form for tools, or
for a system's turn, refuses them."""

from pathlib import Path
from typing import NamedTuple


class Template(NamedTuple):
    """A template and the tokens that it writes, beside the tokenizer's own bos and eos; those that it needs."""

    text: str
    tokens: tuple[str, ...]
    eos: bool = False
    """Whether the tokenizer's end of sequence ends a turn."""


_IM = ("<|im_start|>", "<|im_end|>")
_TOKENS = {"chatml": _IM, "qwen": _IM, "llama3": ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
           "mistral": (), "zephyr": (), "gemma": ("<start_of_turn>", "<end_of_turn>")}  # fmt: skip
TEMPLATES = {
    name: Template("".join(Path(__file__).with_name(f"{name}.jinja").read_text(encoding="utf-8").splitlines()), tokens,
                   eos=not tokens)
    for name, tokens in _TOKENS.items()}
