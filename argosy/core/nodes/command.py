"""The command of the check: its options and what it prints."""

import argparse
import json
import os
from pathlib import Path

from argosy.core.errors import InputError
from argosy.core.nodes.check import SIDE, Place, Verdict, check
from argosy.core.nodes.hardware import look
from argosy.core.store.files import write_json

SKEW_S = 1.0  # of clocks, from which on logs and leases are in a wrong order


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--storage", type=Path, default=Path(), metavar="DIR",
                        help="nodes: folder whose speed counts (default: this one)")
    parser.add_argument("--wait", type=float, default=60.0, metavar="S",
                        help="nodes: seconds for every process to arrive (default: 60)")
    parser.add_argument("--patience", type=float, default=30.0, metavar="S",
                        help="nodes: seconds for an exchange of a pair (default: 30)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="nodes: write the outcome there too")


def check_nodes(args: argparse.Namespace) -> int:
    """Look at this machine, then measure all processes of the job together; returns the exit code, on each of them 1
    where one is bad or not cleared."""
    place, failed = Place.of_environment(os.environ), False
    for name, seconds in (("wait", args.wait), ("patience", args.patience)):
        if not seconds > 0:
            raise InputError(f"--{name} is {seconds:g}, allowed: seconds above 0")
    if place.rank >= place.world:
        raise InputError(f"RANK is {place.rank} and WORLD_SIZE {place.world}, allowed: 0 to {place.world - 1}")
    if args.json and not args.json.absolute().parent.is_dir():
        raise InputError(f"--json is '{args.json}', whose folder is not there: make it, or name another file")
    for found in look(args.storage):
        failed = failed or found.state == "FAIL"
        print(f"{found.state:4}  {found.name:10}  {found.what}", flush=True)
        if found.fix and found.state != "ok":
            print(f"{'':18}fix: {found.fix}", flush=True)
    verdict = check(place, args.wait, args.patience)
    if place.rank == 0:
        describe(verdict, place.world)
    if args.json:
        write_json(args.json, {"bad": verdict.bad, "suspects": verdict.suspects, "rounds": verdict.rounds,
                               "names": {rank: reading.name for rank, reading in verdict.readings.items()}})
    return int(failed or bool(verdict.bad or verdict.suspects))


def describe(verdict: Verdict, world: int) -> None:
    """Print a line for each process, and what is to be done."""
    for rank in range(world):
        reading = verdict.readings.get(rank)
        name = reading.name if reading else "?"
        why = verdict.bad.get(rank) or verdict.suspects.get(rank, "")
        state = "FAIL" if rank in verdict.bad else "warn" if why else "ok"
        side = SIDE["cuda" if "/gpu" in name else "cpu"]
        speed = f"{2 * side**3 / reading.product / 1e9:,.0f} GFLOP/s" if reading and reading.product else ""
        print(f"{state:4}  process {rank:<4} {name:20} {speed:>14}  {why}", flush=True)
        if abs(skew := verdict.skew.get(rank, 0.0)) > SKEW_S:
            print(f"warn  process {rank:<4} {name:20} its clock is {skew:+.1f} s from that of process 0: start NTP")
    if verdict.bad:
        print(f"bad after {verdict.rounds} rounds: {json.dumps(verdict.bad)}: start the job without them")
    elif verdict.suspects:
        print("one of the suspects is bad, and no good process was left to tell which: add a node and check again")
