"""`argosy data`: what happened to a document, what a filter says of a file, what another config would drop."""

import argparse
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from argosy.core.errors import InputError
from argosy.core.store.files import read_json
from argosy.core.store.remote import expand_input
from argosy.core.store.step_files import read_done
from argosy.corpus.cleaning.dedup.spans import without
from argosy.corpus.cleaning.export import FORMATS, MANIFEST, export
from argosy.corpus.cleaning.filter import Resources
from argosy.corpus.cleaning.filters import make_filters
from argosy.corpus.cleaning.kept import REPORT, KeptCorpus
from argosy.corpus.cleaning.report.explain import difference, duplicate_of, find, looks
from argosy.corpus.cleaning.report.making import CONTAMINATED
from argosy.corpus.cleaning.scored import open_shards, scores_of
from argosy.corpus.cleaning.scoring import labels
from argosy.corpus.data.jsonl import read_jsonl
from argosy.corpus.text.display import columns, visible
from steps.clean import CleanConfig
from workflows.cli.command import Command, add_store, memory, not_negative
from workflows.cli.trial import beginning, table, tried
from workflows.stored.last_run import last_run
from workflows.stored.lineage import Lineage


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    explain = actions.add_parser("explain", help="what cleaning made of a document, and why")
    explain.add_argument("document", metavar="ID", help="id of a document: file:line")
    tried = actions.add_parser("try", help="what a filter says of files")
    tried.add_argument("filter", metavar="FILTER", help="name, or an object with name and thresholds")
    tried.add_argument("files", metavar="FILE", nargs="+", help="files or folders")
    diff = actions.add_parser("diff", help="what one cleaning drops and another keeps")
    diff.add_argument("first", metavar="CLEAN", type=Path, help="directory of a clean step")
    diff.add_argument("second", metavar="CLEAN", type=Path, help="directory of another one")
    dropped = actions.add_parser("dropped", help="documents that a filter has dropped")
    dropped.add_argument("filter", metavar="FILTER", help="name of the filter")
    exported = actions.add_parser("export", help="the documents that cleaning kept, as files for others")
    exported.add_argument("--out", required=True, metavar="DIR", help="folder to make, or a URI such as s3://BUCKET/KEY")
    exported.add_argument("--format", choices=FORMATS, default="parquet", help="of the files (default: parquet)")
    exported.add_argument("--shard-size", type=memory, default=0.512, metavar="SIZE",
                          help="text in a file, such as 64MB (default: 512MB)")
    exported.add_argument("--replace", action="store_true", help="an earlier export at --out gives way")
    for each in (explain, dropped, exported):
        each.add_argument("--clean", type=Path, metavar="DIR", help="a clean step's (default: the last run's)")
        add_store(each)
    for each in (tried, diff, dropped):
        each.add_argument("--most", type=not_negative, default=10, metavar="N",
                          help="documents that are shown (default: 10)")


def run(args: argparse.Namespace) -> int:
    actions = {"explain": _explain, "diff": _diff, "dropped": _dropped, "export": _export}
    for line in tried(args.filter, args.files, args.most) if args.action == "try" else actions[args.action](args):
        print(visible(line))
    return 0


def _open(args: argparse.Namespace) -> tuple[KeptCorpus, CleanConfig]:
    directory = args.clean
    if directory is None:
        directories = last_run(args.store).directories
        if "clean" not in directories:
            raise InputError("the last run has no clean stage: name the directory of one with --clean")
        directory = args.store / directories["clean"]
    return _corpus(directory)


def _corpus(directory: Path) -> tuple[KeptCorpus, CleanConfig]:
    """Open a clean step's corpus, whose scored shards lie beside it. Raises InputError: they do not."""
    done = read_done(directory)
    if done is None or done["made_from"]["step"] != "clean":
        raise InputError(f"{directory} is not the directory of a finished clean step")
    scored = Lineage(directory.absolute().parent).of(directory.absolute()).upstream["scored"]
    missing = [each for each in scored if isinstance(each, str)]
    if missing:
        raise InputError(f"{directory}: {len(missing)} of its {len(scored)} score steps are not in this store")
    paths = [str(each.directory) for each in scored if not isinstance(each, str)]
    return KeptCorpus.of(str(directory), paths), CleanConfig(filters=done["made_from"]["config"]["filters"])


def _measured(corpus: KeptCorpus) -> list[Path]:
    """List the measure steps of a corpus, by the lineage of its clean step; none where no filter asked a model."""
    clean = corpus.clean.absolute()
    found = Lineage(clean.parent).of(clean).upstream.get("measured", ())
    if missing := [each for each in found if isinstance(each, str)]:
        raise InputError(f"{clean}: {len(missing)} of its {len(found)} measure steps are not in this store")
    return [each.directory for each in found if not isinstance(each, str)]


def _explain(args: argparse.Namespace) -> Iterator[str]:
    corpus, config = _open(args)
    place = find(corpus, args.document)
    shard = open_shards(corpus.scored, _measured(corpus))[place.shard]
    [(text, channel, lang, source, changed)] = shard.rows([place.row], ("text", "channel", "lang", "source", "changed"))
    yield f"{args.document}: channel {channel}, language {lang or 'not named'}, from {source}"
    cuts = corpus.cuts(place.shard).get(place.row, [])
    left = without(text, cuts)
    yield f"  {beginning(left)}"
    yield f"  changed by: {', '.join(changed) or 'no filter'}"
    if cuts:
        yield (f"  cut: {len(text) - len(left)} of {len(text)} characters, which other documents have too, such as: "
               f"{beginning(text[slice(*cuts[0])])}")
    decision = corpus.decision(place.shard, place.row)
    tier = corpus.tier(place.shard, place.row, channel)
    kept = "kept" if tier == channel else f"kept, as channel {tier}"
    yield f"  {'dropped by ' + ': '.join(decision) if decision else kept}"
    if decision and (other := duplicate_of(corpus, place, decision[0]) if corpus.has_copies(decision[0]) else ""):
        yield f"  the one that stays: {other}"
    path = corpus.clean / CONTAMINATED
    for row in read_jsonl(path) if path.is_file() else ():
        if row.get("document") == args.document:
            yield f"  holds the item {row['item']} of {row['suite']}: {row['match']}, overlap {row['overlap']:.2f}"
    yield from table(looks(make_filters(config.filters, Resources()), scores_of(shard, place.row), channel))


def _diff(args: argparse.Namespace) -> Iterator[str]:
    first, second = _corpus(args.first)[0], _corpus(args.second)[0]
    if first.clean.resolve() == second.clean.resolve():
        raise InputError(f"{args.first} and {args.second} are the same directory: name those of two clean steps")
    pairs = {word: difference(one, other, args.most) for word, one, other in (("more", second, first),
                                                                              ("less", first, second))}
    if any(found.documents and found.absent == found.documents for found in pairs.values()):
        raise InputError(f"{args.first} and {args.second} have no document in common, by their ids (file:line): "
                         "name cleanings of the same inputs")
    for word, name in (("less", args.first), ("more", args.second)):
        if pairs[word].absent:
            yield f"{pairs[word].absent} of the {pairs[word].documents} documents of {name} are not in the other one"
    for word, found in pairs.items():
        yield f"the second drops {found.reasons.total()} documents {word}"
        for (label, reason), count in found.reasons.most_common():
            yield f"  {count:8} {label}: {reason}"
            for name, *why, text in found.samples:
                if tuple(why) == (label, reason):
                    yield f"           {name}  {text}"


def _dropped(args: argparse.Namespace) -> Iterator[str]:
    corpus, config = _open(args)
    known = labels(config.filters)
    if args.filter not in known:
        raise InputError(f"the cleaning has no filter {args.filter!r}, allowed: {', '.join(known)}")
    reasons = Counter[str]()
    for channel in read_json(corpus.clean / REPORT)["channels"].values():
        reasons.update(channel["dropped"].get(args.filter, {}))
    every = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    yield f"{args.filter} has dropped {reasons.total()} documents{': ' + every if every else ''}"
    if not reasons:
        return
    found = ((document, reason) for document, label, reason in corpus.dropped() if label == args.filter)
    for document, reason in islice(found, args.most):
        yield f"{document.id}  {reason}"
        yield f"  {beginning(document.text)}"


def _export(args: argparse.Namespace) -> Iterator[str]:
    try:
        out = expand_input(args.out)
    except ValueError:
        raise InputError(f"--out is {args.out!r}, allowed: a folder, or a URI that fsspec can write, such as "
                         "s3://BUCKET/KEY") from None
    if out.startswith("memory:"):
        raise InputError(f"--out is {args.out!r}, whose store ends with this command, allowed: a folder, or a URI of a "
                         "store that lasts, such as s3://BUCKET/KEY")
    found = export(_open(args)[0], out, args.format, round(args.shard_size * 1e9), args.replace)
    rows = [(name, f"{channel['documents']:,}", f"{channel['text_bytes']:,}", str(len(channel["files"])))
            for name, channel in found["channels"].items()]
    yield columns([("CHANNEL", "DOCUMENTS", "BYTES OF TEXT", "FILES"), *rows], right=range(1, 4))
    yield f"{out}: {found['documents']:,} documents; counts and hashes are in {MANIFEST}"


COMMAND = Command("data", "what happened to documents; a filter on a file; cleaned text as files", 75, configure, run)
