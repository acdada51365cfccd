"""What bench/peers/compare_strategies.py runs and prints, of rows that were made up."""

import contextlib
import io
import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/peers"))
import compare_strategies


def row_of(command, replayed):
    """As throughput has it; of theirs there are no graphs."""
    row = {"pairs_per_s": 100.0, "peak_memory_bytes": 1, "peak_tensor_bytes": 2,
           "devices": 1 if "none" in command else 2}
    return {**row, "a_step": {"replayed": replayed}} if "throughput" in command else row


def compared(*options):
    """(what is printed, the commands of ours, those of theirs)"""
    commands = []

    def run(_, command, environment, arguments, cores, more):
        commands.append(command)
        return row_of(command, 0.9 if "none" in command else 0)

    printed = io.StringIO()
    with mock.patch.object(sys, "argv", ["compare", "--throughput", "throughput", "--rounds", "1", *options]), \
            mock.patch.object(compare_strategies, "run", run), contextlib.redirect_stdout(printed):
        compare_strategies.main()
    ours, theirs = ([command for command in commands if ("throughput" in command) == is_ours]
                    for is_ours in (True, False))
    return printed.getvalue(), ours, theirs


class Compared(unittest.TestCase):
    def test_the_line_says_whose_steps_are_replayed(self):
        text, _, _ = compared("--device", "cuda", "--strategies", "none", "ddp", "fsdp")
        self.assertIn("ringlet's steps: replayed as graphs: none; launched op by op: ddp, fsdp\n", text)

    def test_what_changes_a_step_of_ours_reaches_it_and_not_theirs(self):
        options = ["--transport", "nccl", "--algorithm", "ring", "--step-graphs", "off"]
        _, ours, theirs = compared("--device", "cuda", "--strategies", "none", "ddp", *options)
        for command in ours:
            self.assertEqual([word for word in command if word in options], options)
        for command in theirs:
            self.assertNotIn("--transport", command)

    def test_a_launcher_starts_ours_where_a_device_has_a_process(self):
        _, ours, theirs = compared("--strategies", "none", "ddp", "fsdp", "--launcher", "ringlet")
        self.assertEqual(ours[0][0], "throughput")
        for command in ours[1:]:
            self.assertEqual(command[:5], ["ringlet", "run", "--nproc-per-node", "2", "throughput"])
        for command in theirs:
            self.assertNotIn("ringlet", command)

    def test_steps_of_a_cpu_are_no_graphs_and_nothing_is_said(self):
        text, _, _ = compared("--strategies", "none", "ddp")
        self.assertNotIn("replayed", text)


if __name__ == "__main__":
    unittest.main()
