"""Files of lm-eval (0.4): `results_<time>.json` and `samples_<task>_<time>.jsonl`. A form of ours is a filter of
theirs; `plain` is their `none`."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError
from argosy.core.store.files import json_text, make_directory, write_atomic
from argosy.evidence.report.items import Asked
from argosy.evidence.results.findings import Findings
from argosy.evidence.results.items import ASKED
from argosy.evidence.results.values import Record
from evals.answers import OTHER_ANSWER
from evals.exchange import OURS, PLAIN, Exported, Value, add, kind_of, number
from evals.lm_eval.results import right_metric, variant_of
from evals.records import language_of

NAME = "lm-eval"
FORM = "lm_eval"
_IDENTITY = ("item", "lang", "cluster", "gold", "golds", ASKED, "mixed", "calibration")  # of a row's question
Row = dict[str, Any]


def filter_of(form: str) -> str:
    return "none" if form == PLAIN else form


def form_of(filter_name: str, form: str) -> str:
    """Name the form that a filter of their own is: `form` for `none`, with the filter's name behind it for others."""
    own = variant_of(filter_name)
    return own if form == PLAIN else form if own == PLAIN else f"{form}-{own}"


def write(found: Exported, out: Path) -> list[Path]:
    """Write the results, and the samples of each task; returns the files."""
    time, folder = f"{found.time:%Y-%m-%dT%H-%M-%S.%f}", make_directory(out)
    results: dict[str, dict[str, Any]] = {}
    better: dict[str, dict[str, bool]] = {}
    counts: dict[str, int] = {}
    for value in found.values():
        own = results.setdefault(value.task, {"alias": value.task})
        own[f"{value.metric},{filter_of(value.form)}"] = value.value
        own[f"{value.metric}_stderr,{filter_of(value.form)}"] = value.stderr if math.isfinite(value.stderr) else "N/A"
        counts[value.task] = own["sample_len"] = max(value.n, counts.get(value.task, 0))
        if value.kind.sign:
            better.setdefault(value.task, {})[value.metric] = value.kind.sign > 0
    samples: dict[str, list[Row]] = {}
    kinds: dict[str, str] = {}
    for task, form, rows in found.rows():
        samples.setdefault(task, []).extend(_samples(task, form, rows, found))
        kinds[task] = "multiple_choice" if any(row["scores"] for row in rows) else "generate_until"
    record = {
        "results": results, "group_subtasks": {task: [] for task in results}, "versions": dict.fromkeys(results, 1),
        "configs": {task: {"task": task, "output_type": kinds.get(task, "multiple_choice")} for task in results},
        "n-shot": {}, "higher_is_better": better,
        "n-samples": {task: {"original": n, "effective": n} for task, n in counts.items()},
        "config": {"model": OURS, "model_args": found.name}, "date": found.time.timestamp(), "model_source": OURS,
        "model_name": found.name, "model_name_sanitized": found.name.replace("/", "__"),
        "task_hashes": {task: _hash("".join(s["doc_hash"] + s["prompt_hash"] + s["target_hash"] for s in some))
                        for task, some in samples.items()}}  # fmt: skip
    files = {folder / f"results_{time}.json": json_text(record, indent=2)}
    for task, some in samples.items():
        files[folder / f"samples_{task}_{time}.jsonl"] = "".join(json_text(each) + "\n" for each in some)
    for path, text in files.items():
        write_atomic(path, text)
    return list(files)


def _samples(task: str, form: str, rows: Sequence[Record], found: Exported) -> Iterator[Row]:
    """Yield samples. Theirs also say whether an option is the greedy continuation, which our rows do not know. Prompt
    and options are empty where the question is not at hand."""
    for number_, row in enumerate(rows):
        asked = found.asked.get((task, form, str(row["id"]))) or Asked("", ("",) * len(row["scores"]))
        prompts = asked.prompts or (asked.prompt,) * max(1, len(asked.options))
        options = asked.options or ("",)
        doc = {"id": row["id"], "question": asked.prompt, "choices": list(asked.options),
               **{name: row[name] for name in _IDENTITY if name in row}}
        target = str(row["gold"]) if row["scores"] else asked.answer
        responses: list[Any] = [[str(score)] for score in row["scores"]] or [row.get("text") or ""]
        read = responses if row["scores"] else [row.get("extracted") or ""]
        yield {"doc_id": number_, "doc": doc, "target": target,
               "arguments": {f"gen_args_{n}": {"arg_0": prompt, "arg_1": asked.before + option if row["scores"] else {}}
                             for n, (prompt, option) in enumerate(zip(prompts, options, strict=True))},
               "resps": [[each] for each in responses], "filtered_resps": read, "filter": filter_of(form),
               "metrics": ["acc"], "doc_hash": _hash(json_text(doc)), "prompt_hash": _hash(asked.prompt),
               "target_hash": _hash(target), "acc": float(row["correct"])}  # fmt: skip


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read(path: Path, content: Mapping[str, Any], form: str, names: Mapping[str, str], into: Findings) -> str:
    """Read results, and the samples beside them, into findings; returns the model's name.

    `form`: name of the form that answers with their filter `none` are; `names`: ours by their task. Raises InputError:
    a metric is there already, or a sample is not of the format."""
    ours = content.get("config", {}).get("model") == OURS
    own_form = PLAIN if ours and not form else form or FORM
    better, sizes = content.get("higher_is_better", {}), content.get("n-samples", {})
    for task, values in content["results"].items():
        for key, value in values.items():
            metric, _, filter_name = key.partition(",")
            if not filter_name or metric.endswith("_stderr") or math.isnan(number(value)):
                continue
            n = int(sizes.get(task, {}).get("effective") or values.get("sample_len") or 0)
            error = number(values.get(f"{metric}_stderr,{filter_name}"))
            add(into, Value(names.get(task, task), form_of(filter_name, own_form), metric, number(value), error, n,
                            kind_of(metric, better.get(task, {}).get(metric))), path)
    for file in sorted(path.parent.glob(f"samples_*{path.stem.removeprefix('results')}.jsonl")):
        task = next((t for t in content["results"] if file.name.startswith(f"samples_{t}_2")), "")
        if task:
            into.rows += [_row(sample, names.get(task, task), own_form, file, number_, ours=ours)
                          for number_, sample in enumerate(_lines(file), 1)]
    _mark_groups(content, own_form, names, into)
    return str(content.get("model_name") or content.get("config", {}).get("model_args") or "model")


def _lines(file: Path) -> Iterator[Mapping[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        for number_, line in enumerate(lines, 1):
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                raise InputError(f"{file}:{number_} is no JSON ({error}): copy the file again, or remove it to import "
                                 "the numbers alone") from None


def _row(sample: Mapping[str, Any], task: str, form: str, file: Path, line: int, *, ours: bool) -> Row:
    """Make a row as an evaluation has it. Their wording (`asked`) is not known: questions pair by name and options."""
    try:
        arguments = [[each[f"arg_{n}"] for n in range(len(each))] for each in sample["arguments"].values()]
        name = str(sample["doc"]["id"]) if ours else f"{task}/{sample['doc_id']}"
        prompt = str(arguments[0][0]) if arguments and arguments[0] else ""
        row: Row = {"task": task, "variant": form_of(str(sample["filter"]), form), "id": name,
                    "item": name, "lang": language_of(prompt)}  # fmt: skip
        row |= {metric: float(sample[metric]) for metric in sample["metrics"]
                if isinstance(sample.get(metric), bool | int | float)}
        row |= _answer(sample, arguments, row)
        return row | ({key: sample["doc"][key] for key in _IDENTITY if key in sample["doc"]} if ours else {})
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise InputError(f"{file}:{line} is no sample of lm-eval ({type(error).__name__}: {error}): remove the file to "
                         "import the numbers alone") from None


def _answer(sample: Mapping[str, Any], arguments: Sequence[Sequence[Any]], row: Row) -> Row:
    """Describe the answer; `correct` where it is either right or wrong and, of options, the right one is known."""
    right, responses = row.get(right_metric(row) or ""), sample["filtered_resps"]
    scored = isinstance(responses[0], Sequence) and not isinstance(responses[0], str)
    target = str(sample["target"])
    if scored:
        options = [str(each[1]).strip() for each in arguments]
        gold = int(target) if target.isdigit() and int(target) < len(options) else (
            options.index(target.strip()) if target.strip() in options else None)
        scores = [round(float(each[0]), 5) for each in responses][: len(options)]
        found: Row = {"scores": scores}
        if scores and all(map(math.isfinite, scores)):
            found["chosen"] = scores.index(max(scores))
            if gold is not None and right in (0.0, 1.0):
                row.pop("acc", None)  # says the same
                found |= {"correct": right == 1, "gold": gold}
        return found
    text = {"text": str(sample["resps"][0][0]), "extracted": str(responses[0])}
    if right not in (0.0, 1.0):
        return text
    row.pop("acc", None)
    return {"correct": right == 1, "chosen": 0 if right else OTHER_ANSWER, "gold": 0, "scores": [], **text}


def _mark_groups(content: Mapping[str, Any], form: str, names: Mapping[str, str], into: Findings) -> None:
    """Name in the rows the groups whose accuracy is the mean over their tasks' items, as `evals.lm_eval` does."""
    below = content.get("group_subtasks", {})

    def tasks(group: str) -> set[str]:
        return {group}.union(*(tasks(each) for each in below.get(group, ()))) if group else set()

    for group in (each for each in content["results"] if below.get(each)):
        of = {names.get(each, each) for each in tasks(group)}
        for filter_name in {key.partition(",")[2] for key in content["results"][group] if "," in key}:
            own = [row for row in into.rows if row["task"] in of and row["variant"] == form_of(filter_name, form)]
            right = [float(row.get("correct", row.get("acc", 0))) for row in own if "correct" in row or "acc" in row]
            value = number(content["results"][group].get(f"acc,{filter_name}"))
            if right and math.isclose(math.fsum(right) / len(right), value, abs_tol=1e-9):
                for row in own:
                    row.setdefault("groups", []).append(names.get(group, group))
