"""Batches of the lengths in bench/data/snli_lengths.json, the same for every program that is compared."""

import json
import pathlib

HISTOGRAM = pathlib.Path(__file__).resolve().parents[1] / "data" / "snli_lengths.json"
MASK64 = (1 << 64) - 1


def splitmix64(value):
    value = (value + 0x9E3779B97F4A7C15) & MASK64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK64
    return value ^ (value >> 31)


class Lengths:
    """Pair k (k = step * batch + row) has the lengths at splitmix64(k) mod n of the histogram's n pairs."""

    def __init__(self, histogram=None):
        """`histogram`: a file of other lengths."""
        histogram = json.loads(pathlib.Path(histogram or HISTOGRAM).read_text(encoding="utf-8"))
        self.pairs = [(premise, hypothesis) for premise, hypothesis, count in histogram["lengths"]
                      for _ in range(count)]
        self.mean_tokens_per_pair = sum(map(sum, self.pairs)) / len(self.pairs)

    def batch(self, step, size):
        """Two columns of `size` lengths."""
        rows = [self.pairs[splitmix64(step * size + row) % len(self.pairs)] for row in range(size)]
        return tuple(zip(*rows))


def token_counts(columns):
    """(real tokens, tokens when each column is padded to its longest row)."""
    return sum(map(sum, columns)), sum(len(column) * max(column) for column in columns)
