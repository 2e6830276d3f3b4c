"""`python -m benchmarks.faults CAMPAIGN`: run campaigns, and print their rows of the table of
docs/reliability.md.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.faults.disk import Disk
from benchmarks.faults.kills import Kills
from benchmarks.faults.machines import MACHINES, Machines
from benchmarks.faults.memory import Memory
from benchmarks.faults.models import Models
from benchmarks.faults.running import Campaign, run_campaign, usable_cpus
from benchmarks.faults.samples import MakingFailed, Samples
from benchmarks.faults.stored import Stored
from benchmarks.faults.trial import Tally, markdown_table
from benchmarks.quick import parse

#: How many inputs of each docs/reliability.md asks for; of `models` a third is measured.
_CAMPAIGNS: dict[str, tuple[Callable[[Samples, int, Path], Campaign], int]] = {
    "stored": (Stored, 20_000),
    "models": (Models, 1500),
    "kills": (Kills, 300),
    "disk": (Disk, 270),
    "memory": (Memory, 100),
    "machines": (Machines, 4 * len(MACHINES)),
}

#: The first inputs of three campaigns: what other inputs would find shall not hold up a change that
#: has nothing to do with it.
_QUICK = ("stored", "kills", "disk", "--seconds=2", "--seed=1")
#: How often it is told how far a campaign has come.
_TELLING_S = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaigns; exit code 1 where anything was wrong."""
    options = parse(_parser(), arguments, _QUICK)
    # A shell has what it starts in the background ignore Ctrl-C, and so would all that is started
    # here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    names = options.campaigns or list(_CAMPAIGNS)
    tallies = []
    with tempfile.TemporaryDirectory(prefix="reusebench-faults-") as folder:
        try:
            samples = Samples(Path(folder) / "samples").make()
        except MakingFailed as error:
            sys.exit(f"the product does not work here: {error}")
        if "models" in names:
            samples.add_models(options.model)
        for name in names:
            make, count = _CAMPAIGNS[name]
            indexes = range(options.count or count) if options.only is None else [options.only]
            tally = Tally(name)
            campaign = make(samples, options.seed, options.keep.absolute())
            next_s = time.monotonic() + _TELLING_S
            # Ctrl-C ends a campaign with what it has come to.
            with suppress(KeyboardInterrupt):
                for trial in run_campaign(
                    campaign, indexes, options.workers, Path(folder) / name, options.seconds
                ):
                    tally.add([trial])
                    if trial.wrongs:
                        where = f"{name} {trial.index}: {trial.about}: {trial.wrongs[0].place}"
                        print(where, file=sys.stderr, flush=True)
                    if time.monotonic() >= next_s:
                        next_s += _TELLING_S
                        print(
                            f"{name}: {tally.tried:,} of {len(indexes):,}",
                            file=sys.stderr,
                            flush=True,
                        )
            tallies.append(tally)
            print("\n".join(tally.places_in_words(options.keep)), file=sys.stderr)
    print(markdown_table(tallies))
    return 1 if any(tally.kinds for tally in tallies) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.faults", description=__doc__)
    names = ", ".join(_CAMPAIGNS)
    parser.add_argument(
        "campaigns",
        nargs="*",
        choices=[*_CAMPAIGNS, []],
        metavar="CAMPAIGN",
        help=f"{names}; default: all",
    )
    parser.add_argument(
        "--count",
        type=int,
        metavar="N",
        help="inputs of each; default: what docs/reliability.md asks for",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help="other inputs (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="begin no further input of a campaign after so long",
    )
    parser.add_argument(
        "--workers", type=int, default=usable_cpus(), metavar="N", help="default: the usable CPUs"
    )
    parser.add_argument("--only", type=int, metavar="INDEX", help="this input alone")
    parser.add_argument(
        "--model",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="of `models`, beside those that can be made here, such as an .rknn file; repeatable",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        default=Path("out/faults"),
        metavar="DIR",
        help="for what went wrong (default: %(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
