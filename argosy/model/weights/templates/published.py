"""Chat templates by name, in their published forms, with the assistant's words and end of turn between
{% generation %} and {% endgeneration %}.

Sources: ChatML (OpenAI 2023) with the calls of tools that Hermes and Qwen2.5 write; Llama 3.1's prompt format (Meta
2024); Mistral-7B-Instruct-v0.1; Zephyr (Tunstall et al. 2023); Gemma (2024). A template that has no form for tools, or
for a system's turn, refuses them."""

from typing import NamedTuple


class Template(NamedTuple):
    """A template and the tokens that it writes, beside the tokenizer's own bos and eos; those that it cannot do
    without."""

    text: str
    tokens: tuple[str, ...]
    eos: bool = False
    """Whether the tokenizer's end of sequence ends a turn."""


_NO_TOOLS = (
    "{% if tools %}{{ raise_exception('it has no form for tools') }}{% endif %}"
    "{% for message in messages %}{% if message.tool_calls or message.role == 'tool' %}"
    "{{ raise_exception('it has no form for calls of tools') }}{% endif %}{% endfor %}"
)
_ALTERNATE = (
    "{% for message in turns %}{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('turns of user and assistant must alternate, the user first') }}{% endif %}{% endfor %}"
)
_SYSTEM = (  # apart from the turns
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set turns = messages[1:] %}"
    "{% else %}{% set system = '' %}{% set turns = messages %}{% endif %}"
)
_TOOLS = (
    "{{ '# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\nYou are provided with "
    "function signatures within <tools></tools> XML tags:\\n<tools>' }}"
    "{% for tool in tools %}{{ '\\n' + (tool | tojson) }}{% endfor %}"
    "{{ '\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments within "
    "<tool_call></tool_call> XML tags:\\n<tool_call>\\n{\"name\": <function-name>, \"arguments\": "
    "<args-json-object>}\\n</tool_call>' }}"
)


def _chatml(default_system: str) -> str:
    """ChatML; tools stand below the system's words, what they return in a turn of the user."""
    return _SYSTEM + (
        f"{{% if not system %}}{{% set system = '{default_system}' %}}{{% endif %}}"
        "{% if system or tools %}{{ '<|im_start|>system\\n' + system }}"
        "{% if tools %}{{ '\\n\\n' if system else '' }}" + _TOOLS + "{% endif %}{{ '<|im_end|>\\n' }}{% endif %}"
        "{% for message in turns %}{% if message.role == 'assistant' %}{{ '<|im_start|>assistant\\n' }}"
        "{% generation %}{{ message.content }}{% for call in message.tool_calls or [] %}"
        "{{ '\\n' if message.content or not loop.first else '' }}"
        "{{ '<tool_call>\\n{\"name\": ' + (call.function.name | tojson) + ', \"arguments\": ' "
        "+ (call.function.arguments | tojson) + '}\\n</tool_call>' }}{% endfor %}{{ '<|im_end|>' }}{% endgeneration %}"
        "{{ '\\n' }}"
        "{% elif message.role == 'tool' %}"
        "{% if loop.first or loop.previtem.role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}"
        "{{ '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}"
        "{% if loop.last or loop.nextitem.role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}"
        "{% else %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endif %}"
        "{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    )


_LLAMA3 = (
    "{{ bos_token }}{% set told = namespace(tools=not tools) %}{% for message in messages %}"
    "{{ '<|start_header_id|>' + ('ipython' if message.role == 'tool' else message.role) + '<|end_header_id|>\\n\\n' }}"
    "{% if message.role == 'assistant' %}{% generation %}"
    "{% if message.tool_calls %}{% if message.tool_calls | length > 1 or message.content %}"
    "{{ raise_exception('one call of a tool a turn, without words') }}{% endif %}"
    "{{ '{\"name\": ' + (message.tool_calls[0].function.name | tojson) + ', \"parameters\": ' "
    "+ (message.tool_calls[0].function.arguments | tojson) + '}' }}"
    "{% else %}{{ message.content | trim }}{% endif %}{{ '<|eot_id|>' }}{% endgeneration %}{% else %}"
    "{% if message.role == 'user' and not told.tools %}{% set told.tools = true %}"
    "{{ 'Given the following functions, please respond with a JSON for a function call with its proper arguments that "
    "best answers the given prompt.\\n\\nRespond in the format {\"name\": function name, \"parameters\": dictionary of "
    "argument name and its value}. Do not use variables.\\n\\n' }}"
    "{% for tool in tools %}{{ (tool | tojson(indent=4)) + '\\n\\n' }}{% endfor %}{% endif %}"
    "{{ (message.content | trim) + '<|eot_id|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
_MISTRAL = _NO_TOOLS + _SYSTEM + _ALTERNATE + (
    "{{ bos_token }}{% for message in turns %}{% if message.role == 'user' %}"
    "{{ '[INST] ' + (system + '\\n\\n' if system and loop.first else '') + message.content + ' [/INST]' }}"
    "{% else %}{% generation %}{{ ' ' + (message.content | trim) + eos_token }}{% endgeneration %}{% endif %}"
    "{% endfor %}"
)
_ZEPHYR = _NO_TOOLS + (
    "{% for message in messages %}{{ '<|' + message.role + '|>\\n' }}"
    "{% if message.role == 'assistant' %}{% generation %}{{ message.content + eos_token }}{% endgeneration %}"
    "{% else %}{{ message.content + eos_token }}{% endif %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"
)
_GEMMA = _NO_TOOLS + _SYSTEM + _ALTERNATE + (
    "{{ bos_token }}{% for message in turns %}"
    "{{ '<start_of_turn>' + ('model' if message.role == 'assistant' else 'user') + '\\n' }}"
    "{% if message.role == 'assistant' %}{% generation %}{{ (message.content | trim) + '<end_of_turn>' }}"
    "{% endgeneration %}{% else %}{{ system + '\\n\\n' if system and loop.first else '' }}"
    "{{ (message.content | trim) + '<end_of_turn>' }}{% endif %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"
)

_IM = ("<|im_start|>", "<|im_end|>")
TEMPLATES = {
    "chatml": Template(_chatml(""), _IM),
    "qwen": Template(_chatml("You are Qwen, created by Alibaba Cloud. You are a helpful assistant."), _IM),
    "llama3": Template(_LLAMA3, ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")),
    "mistral": Template(_MISTRAL, (), eos=True),
    "zephyr": Template(_ZEPHYR, (), eos=True),
    "gemma": Template(_GEMMA, ("<start_of_turn>", "<end_of_turn>")),
}
