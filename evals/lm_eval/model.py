"""Our scorer as a model of lm-eval, which runs its tasks here."""

import json
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from argosy.model.infer.decode import before_stops
from argosy.model.infer.model import LanguageModel, Pair
from argosy.model.infer.scorer import Fit
from evals.lm_eval.results import option_items


class ArgosyLM(LM):  # type: ignore[misc]
    """lm-eval's LM over a LanguageModel: all requests of all tasks at once, sorted, with shared contexts.

    `also`: further (context, continuation) pairs, and the item of each, that are scored with the first requests; the
    model knows them then.
    `cut`: by task, requests that are longer than the model, of which it sees the end (as with HFLM)."""

    def __init__(self, model: LanguageModel, also: Sequence[Pair] = (), items: Sequence[Hashable] = ()) -> None:
        super().__init__()
        self.language_model = model
        self._also = list(also), list(items)
        self.cut: Counter[str] = Counter()

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        """Score each continuation: (log-probability, is greedy)."""
        pairs = [request.args for request in requests]
        items = option_items(pairs, [(r.task_name, r.doc_id) if r.doc_id is not None else n
                                     for n, r in enumerate(requests)])  # fmt: skip
        (also, their_items), self._also = self._also, ([], [])
        scores = self.language_model.loglikelihood([*pairs, *also], [*items, *their_items])
        fits = self.language_model.fit(pairs, items)
        self.cut.update(str(r.task_name) for r, fit in zip(requests, fits, strict=True) if fit is Fit.CUT)
        return [(score.logprob, score.greedy) for score in scores[: len(pairs)]]

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        """Score each whole text."""
        scores = self.language_model.text_loglikelihood([request.args[0] for request in requests])
        return [score.logprob for score in scores]

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        """Generate up to a stop text, as the task's `generation_kwargs` say (greedy unless do_sample), those of equal
        settings together."""
        found: dict[int, str] = {}
        groups: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            groups.setdefault(json.dumps(request.args[1], sort_keys=True), []).append(index)
        for settings, chosen in groups.items():
            prompts, options = [requests[index].args[0] for index in chosen], json.loads(settings)
            fits = self.language_model.has_room(prompts, _new_tokens(options))
            self.cut.update(str(requests[i].task_name) for i, fits_in in zip(chosen, fits, strict=True) if not fits_in)
            found |= dict(zip(chosen, self._generate(prompts, options), strict=True))
        return [found[index] for index in range(len(requests))]

    def _generate(self, prompts: list[str], options: dict[str, Any]) -> list[str]:
        stops = options.get("until") or []
        stops = [stops] if isinstance(stops, str) else [stop for stop in stops if stop]
        new_tokens = _new_tokens(options)
        if new_tokens >= self.language_model.max_length:
            raise ValueError(f"max_gen_toks is {new_tokens}, and the model has {self.language_model.max_length} "
                             "positions: there is none for the prompt")
        sampling: dict[str, Any] = {key: options[key] for key in ("temperature", "top_p", "top_k") if key in options}
        if not options.get("do_sample"):
            return self.language_model.generate(prompts, stops, new_tokens)
        return [self._sample(prompt, stops, new_tokens, sampling) for prompt in prompts]

    def _sample(self, context: str, stops: list[str], new_tokens: int, sampling: dict[str, Any]) -> str:
        import torch
        from lm_eval.models.utils_hf import stop_sequences_criteria

        model = self.language_model
        prompt = model.encode([context])[0][-max(1, model.max_length - new_tokens) :]
        inputs = torch.tensor([prompt or (model.prefix_token,)], device=model.model.device)
        with torch.inference_mode():
            output = model.model.generate(
                inputs,
                attention_mask=torch.ones_like(inputs),
                max_new_tokens=new_tokens,
                pad_token_id=model.tokenizer.eos_token_id,
                # Not transformers' stop_strings, which stop at a part of a character's bytes.
                stopping_criteria=stop_sequences_criteria(model.tokenizer, stops, inputs.shape[1], 1),
                do_sample=True,
                **sampling,
            )
        return before_stops(model.tokenizer.decode(output[0, inputs.shape[1] :], skip_special_tokens=True), stops)

    @property
    def tokenizer_name(self) -> str:
        """For lm-eval's cache of requests."""
        return str(self.language_model.tokenizer.name_or_path).replace("/", "__")

    def chat_template(self, chat_template: bool | str = False) -> str:
        """Return the tokenizer's template."""
        return str(self.language_model.tokenizer.chat_template or "")

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Render messages with the tokenizer's template."""
        return self.language_model.render(chat_history, add_generation_prompt)


def _new_tokens(options: dict[str, Any]) -> int:
    return int(options.get("max_gen_toks", 256))  # lm-eval's default
