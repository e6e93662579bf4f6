"""Try whether the middle of a transaction may be sent with acks=1, on three brokers, with the checker as the judge.

    python -m tests.chaos.pipelining [--rounds 10] [--storms 1] [--seed SEED]

Each round kills a leader in the middle of transactions, while its followers stand still. Besides the way that
docs/decisions/0006 calls safe, it plays ways that leave something out: where the document says that these lose records,
the checker has to find a loss. Then wire copiers copy under random faults.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
from collections import Counter
from pathlib import Path

from mirror.demo.brokers import LocalCluster
from tests.chaos.pipelining.rounds import PROPERTIES, Round
from tests.chaos.pipelining.storms import Storm


def main() -> None:
    """Play rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--storms", type=int, default=1)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    a = parser.parse_args()
    print(f"seed {a.seed}", flush=True)
    wrong: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="mirror-acks-") as directory,
        LocalCluster("acks", Path(directory), 3, PROPERTIES) as cluster,
    ):
        for number in range(a.rounds):
            played = Round(cluster)
            played.play()
            found = played.wrong()
            wrong += found
            cluster.brokers[-1].start()
            refusals = {name: copier.refusals[:1] for name, copier in played.copiers.items()}
            print(f"round {number + 1}: {found or 'as it had to be'}: {refusals}", flush=True)
        for number in range(a.storms):
            storm = Storm(cluster, random.Random(f"{a.seed} {number}"))
            storm.play()
            found = [f"{copier.topic}: {each}" for copier in storm.copiers for each in copier.violations()]
            wrong += found
            without_ports = (re.sub(r"[\d.]+:\d+ ", "", each) for copier in storm.copiers for each in copier.refusals)
            failures = Counter(without_ports).most_common(20)
            told = f"{len(found)} violations, e.g. {found[:3]}" if found else "nothing lost"
            print(f"storm {number + 1}: {told}: {dict(storm.faults)}; {failures}", flush=True)
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
