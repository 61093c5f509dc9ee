"""Config of synthesis: who answers which prompts, and which of the answers become training data."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from argosy.core.config.explain import likely
from argosy.core.config.schema import RUNTIME, Config, External, Measured, ModelDir, ParallelConfig, Seed, Upstream
from argosy.core.errors import InputError
from argosy.core.step.machine import fast_products
from argosy.corpus.cleaning.records import CurationConfig
from argosy.model.post.config import PositiveInt
from argosy.model.post.rl import ClassifierDir, Rewards, classifier_problem
from argosy.model.post.rl.rewards import configs
from argosy.model.post.synthesis.methods import INSTRUCTIONS, METHODS, PREFERENCES
from argosy.model.weights.elsewhere import is_hub_name


class HeldOut(Config):
    """Prompts that an RL step holds out, as its own `seed` and `heldout_limit` choose them."""

    seed: Seed = 0
    """Its seed."""
    limit: PositiveInt = 128
    """Its heldout_limit."""


class SynthesisConfig(ParallelConfig):
    """Config of the step; its prompts and what must stay out come from the data step."""

    checkpoint: ModelDir = ""
    """Directory of the training step whose model answers, where there is no `teacher`."""
    reward_model: Upstream = ""
    """Directory of the reward_model step; needed if `rewards` has "model"."""
    data: Upstream = ""
    """Directory of the data step."""
    stage: str = "synthesize"
    """Name of the data: of the records' channels, as NAME or NAME/their prompts' channel, and in metrics."""
    method: str = "rejection_sampling"
    """best_of_n (Stiennon et al. 2020), rejection_sampling (Touvron et al. 2023, Llama 2), distillation (Kim and Rush
    2016, sequence-level), on_policy_pairs (Pang et al. 2024)."""
    output: Literal["instructions", "preferences"] = "instructions"
    """Output of best_of_n: conversations with the best answer, or pairs of the best and the worst."""
    prompts: Literal["prompts.jsonl", "instructions.jsonl", "preferences.jsonl"] = "prompts.jsonl"
    """File of the data step, of whose conversations each is taken up to its last answer."""
    limit: int = Field(default=0, ge=0)
    """The first so many prompts, of those that may be answered; 0 is all."""
    teacher: External = ""
    """Model that answers instead of `checkpoint`: its directory, org/name@commit of the Hugging Face hub, or the URL of
    an OpenAI-compatible API, up to and with /v1."""
    teacher_hub: str = ""
    """The same, where `teacher` is a name of the hub; set from it."""
    teacher_url: str = ""
    """The same, where `teacher` is a URL; set from it."""
    teacher_model: str = ""
    """The model's name at that URL."""
    teacher_key_variable: Annotated[str, RUNTIME] = "OPENAI_API_KEY"
    """Variable that holds the key."""
    teacher_parallel: Annotated[PositiveInt, RUNTIME] = 8
    """Requests at a time."""
    teacher_budget: int = Field(default=0, ge=0)
    """Tokens (of requests and replies, as the server counts them) after which no further request is sent; 0: no end."""
    teacher_missing: Annotated[float, Field(ge=0, lt=1)] = 0.01
    """Share of the requests to a URL that may stay without a reply. With more, the step fails, and when it is run again
    it sends those alone."""
    n: int = Field(default=0, ge=0)
    """Answers to each prompt; 0 is 8, of distillation 1."""
    rewards: Rewards = Field(default={"accept": 1.0})
    """Weight of each reward, or its settings, as in RL; distillation has none by default, and keeps all answers."""
    reward_caution: Annotated[float, Field(ge=0)] = 0.0
    """Standard deviations over a reward model's heads that are taken off their mean."""
    classifier: ClassifierDir = ""
    """Directory of a model for sequence classification, as in RL."""
    threshold: float = 1.0
    """Sum of the weighted rewards that a good answer reaches (rejection_sampling, on_policy_pairs, distillation)."""
    keep: PositiveInt = 1
    """Most records of a prompt (rejection_sampling, on_policy_pairs, distillation)."""
    margin: Annotated[float, Field(ge=0)] = 0.0
    """Least difference of a pair's rewards; 0: any (on_policy_pairs, best_of_n with output=preferences)."""
    data_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the written records that are the data step's own, drawn by `seed`."""
    heldout: tuple[HeldOut, ...] = ()
    """Prompts that RL steps hold out for their evaluation, which are not answered; empty: those of this `seed`. A
    pipeline takes those of its items."""
    curation: CurationConfig = CurationConfig.model_validate({"filters": ("decontamination", "exact_dedup")})
    """Cleaning of the records; decontamination also keeps prompts from being answered."""
    max_new_tokens: PositiveInt = 64
    """Tokens of the longest answer; those that are cut there are no good answers."""
    max_length: int = Field(default=0, ge=0)
    """Tokens of the longest prompt with its answer; 0 means the model's context."""
    temperature: float = Field(default=1.0, ge=0)
    """Temperature of the answers; 0 is greedy, for n=1."""
    template: str = ""
    """Chat template that takes the place of the tokenizer's; "" keeps it."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "float32"
    """Precision of matrix products; weights are float32 either way. auto: bfloat16, or float32 on a CPU without
    instructions for it. A reward model reads in float32 always, as its held-out accuracy was measured."""
    generation_batch_size: PositiveInt = 256
    """Answers that a process samples at a time."""
    seed: Seed = 0
    """Seed of the answers, each of which has its own, by prompt and number."""
    threads: PositiveInt = 1
    """Threads of torch on a CPU, of each process."""

    @model_validator(mode="before")
    @classmethod
    def _place_teacher(cls, values: Any) -> Any:
        """Move a URL or a name of the hub to its own field; by default, distillation asks no rewards."""
        if not isinstance(values, dict):
            return values
        values = dict(values)
        if values.get("method") == "distillation":
            values.setdefault("rewards", {})
        teacher = values.get("teacher")
        if isinstance(teacher, str) and teacher.startswith(("http://", "https://")):
            values |= {"teacher": "", "teacher_url": teacher}
        elif isinstance(teacher, str) and is_hub_name(teacher, "teacher"):
            values |= {"teacher": "", "teacher_hub": teacher}
        if values.get("teacher_url"):
            values.setdefault("processes", 1)  # also where a GPU is given for each process
        return values

    def check_fields(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method={self.method!r} is not there; {likely(self.method, METHODS)}")
        try:
            configs(self.rewards)
        except InputError as error:
            raise ValueError(str(error)) from None
        if problem := (classifier_problem(self.rewards, self.classifier) or self._field_problem()
                       or self._teacher_problem() or self._answer_problem()):
            raise ValueError(problem)

    def settled(self, *, gpu: bool) -> Self:
        return self.model_copy(update={"dtype": fast_products(gpu=gpu)}) if self.dtype == "auto" else self

    @property
    def copies(self) -> int:
        return self.n or (1 if self.method == "distillation" else 8)

    @property
    def kind(self) -> str:
        return METHODS[self.method].kind or self.output

    @property
    def has_teacher(self) -> bool:
        """Tell whether another model than the checkpoint answers."""
        return bool(self.teacher or self.teacher_hub or self.teacher_url)

    def _field_problem(self) -> str:
        own = METHODS[self.method].fields
        for name in ("output", "threshold", "keep", "margin", "teacher", "teacher_hub", "teacher_url"):
            if name not in own and getattr(self, name) != type(self).model_fields[name].default:
                reads = ", ".join(own) or "none of its kind"
                return (f"{name}={getattr(self, name)} is not of method={self.method}, which reads {reads}: leave it "
                        "out" + (", or take method=distillation" if name.startswith("teacher") else ""))
        if self.margin and self.kind == INSTRUCTIONS:
            return f"margin={self.margin} is of pairs: set output={PREFERENCES}, or leave it out"
        if not self.rewards and self.method != "distillation":
            return f"rewards is empty, and method={self.method} chooses by them: name one, such as {{accept: 1}}"
        return ""

    def _teacher_problem(self) -> str:
        given = [name for name in ("teacher", "teacher_hub", "teacher_url") if getattr(self, name)]
        if len(given) > 1:
            return f"{given[0]} and {given[1]} are both given: give teacher alone, a directory, a hub's name or a URL"
        if bool(self.teacher_url) != bool(self.teacher_model):
            return ("teacher is a URL, and teacher_model is missing: give the model's name there" if self.teacher_url
                    else f"teacher_model={self.teacher_model!r} is of a teacher with a URL: leave it out")
        if self.teacher_budget and not self.teacher_url:
            return f"teacher_budget={self.teacher_budget} is of a teacher with a URL: leave it out, or set limit"
        if self.teacher_url and self.processes > 1:
            return (f"processes={self.processes}, and a teacher with a URL is asked by one: set processes=1, and "
                    "teacher_parallel to the requests at a time")
        return ""

    def _answer_problem(self) -> str:
        if self.copies > 1 and not self.temperature:
            return f"temperature=0 makes the n={self.copies} answers to a prompt equal: raise it, or set n=1"
        if self.copies == 1 and self.method in ("best_of_n", "on_policy_pairs"):
            return f"n=1 leaves method={self.method} nothing to choose from: raise it"
        if self.keep > self.copies:
            return f"keep={self.keep} is more than the n={self.copies} answers to a prompt: lower it, or raise n"
        return ""


class SynthesisOutputs(Measured):
    """Counts of prompts, answers and records."""

    file: str
    """The records."""
    records: int
    """Records that were made, and passed the cleaning."""
    own: int
    """Records of the data step beside them."""
    prompts: int
    """Prompts that were answered."""
    answers: int
    left_out: dict[str, int]
    """Prompts that were not answered, or have no record, by reason; named in `unused.jsonl`."""
    dropped: dict[str, int]
    """Records that the cleaning dropped, by filter."""
    rejected: dict[str, int]
    """Records of the data step that hold no usable prompt, by reason."""
    metrics: dict[str, float]
