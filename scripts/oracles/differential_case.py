"""Shared by the parts of differential.py: a case is a name, from which all that is random in it follows."""

import hashlib
import random
import re
import subprocess
from collections import Counter

import torch


class Difference(Exception):
    """A result that is not the peer's."""


class Tally:
    """Inputs by kind, the largest share of the allowed error by kind, and what was refused or is meant by kind."""

    def __init__(self):
        self.inputs, self.refused, self.meant, self.worst, self.differences = (
            Counter(), Counter(), Counter(), {}, [])

    def count(self, kind, share=0.0, inputs=1):
        self.inputs[kind] += inputs
        self.worst[kind] = max(share, self.worst.get(kind, 0.0))

    def print(self):
        print(f"{'kind':<44} {'inputs':>9} {'refused':>9}  worst share of the allowed error")
        for kind in sorted(self.inputs.keys() | self.nothing()):
            refused = sum(times for (which, _), times in self.refused.items() if which == kind)
            print(f"{kind:<44} {self.inputs[kind]:>9} {refused:>9}  {self.worst.get(kind, 0):.2f}")
        print(f"{'all':<44} {sum(self.inputs.values()):>9}")
        for title, counter in (("refused", self.refused), ("meant", self.meant)):
            for (kind, reason), times in sorted(counter.items()):
                print(f"{title} {times} times: {kind}: {reason}")

    def nothing(self):
        """The kinds of which no input was compared."""
        return {kind for kind, _ in self.refused.keys() | self.meant.keys() if not self.inputs[kind]}


def seed_of(name):
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")


def generators(name):
    return random.Random(seed_of(name)), torch.Generator().manual_seed(seed_of(name))


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)


def matching(table, message):
    """The reason of the first pattern that the message has."""
    return next((why for pattern, why in table.items() if re.search(pattern, message)), None)
