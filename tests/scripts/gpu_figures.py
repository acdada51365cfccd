"""What scripts/gpu_report.py keeps and makes of checks and figures that were made up."""

import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import gpu_report

EQUALITY = "train/parallel/equality.cpp, cuda"
KILLED = "MESSAGE: figure: seconds of a run in which a rank is killed = 4.25"


def collective(ranks, size, algorithm, p50, of_copy):
    return {"op": "all_reduce", "ranks": ranks, "bytes": size, "algorithm": algorithm, "transport": "thread",
            "algbw": 1, "busbw": 1, "p50_us": p50, "p99_us": p50, "of_copy": of_copy}


def strategy(name, ranks, overlap):
    return {"strategy": name, "devices": ranks, "pairs_per_s": 1, "exposed_ms": 1, "peak_tensor_bytes": 1,
            "overlap": overlap, "step_ms": {"median": 1, "min": 1, "max": 1}}


def report(checks, figures):
    """The Markdown of checks, (slice, name, code, log), and figures, {name: JSON}."""
    with tempfile.TemporaryDirectory() as folder, \
            mock.patch.dict(os.environ, {"COMMIT": "c", "GPU": "g"}), contextlib.redirect_stdout(io.StringIO()):
        log = f"{folder}/log"
        for part, name, code, text in checks:
            pathlib.Path(log).write_text(text + "\n")
            gpu_report.add(folder, part, name, str(code), "1", log)
        for name, figure in figures.items():
            pathlib.Path(f"{folder}/{name}.figures").write_text(json.dumps(figure))
        gpu_report.write(folder, folder)
        return pathlib.Path(f"{folder}/gpu_check.md").read_text()


class Goals(unittest.TestCase):
    def test_of_what_did_not_run_nothing_is_said_but_that(self):
        text = report([], {})
        for what in ("strategies to the bits of ranks in turn: files that fail | <= 0",
                     "seconds of a run in which a rank is killed | <= 60",
                     "in-kernel all-reduce of 2 ranks: % of the copy bound | >= 50",
                     "in-kernel all-reduce of 8 ranks: % of the copy bound | >= 50",
                     "ddp, 2 ranks: % of collectives hidden | >= 50",
                     "fsdp, 4 ranks: % of collectives hidden | >= 50"):
            self.assertIn(f"| {what} | not measured | - |", text)

    def test_collectives_in_one_launch_are_held_against_copies_at_the_largest_size(self):
        rows = [collective(4, 2**20, "in-kernel-ring", 1, 0.99), collective(4, 2**28, "ring", 100, 0.9),
                collective(4, 2**28, "in-kernel-direct", 400, 0.4), collective(4, 2**28, "in-kernel-ring", 250, 0.8),
                collective(4, 2**28, "copy", 200, 1)]
        text = report([("comm", "collectives_4", 0, "")], {"collectives_4": {"rows": rows}})
        self.assertIn("| in-kernel all-reduce of 4 ranks: % of the copy bound | >= 50 | 80.00 | yes |", text)

    def test_ops_are_held_against_the_ceilings_of_their_run(self):
        ops = [{"name": f"mpnet-base/bf16/{op}", "us": us, "GFLOP/s": 1, "GB/s": 4000, "ceiling_percent": 80,
                "error": 1e-3, "ms_per_step": 0.5} for op, us in (("attention", 30), ("attention backward", 70), ("gelu", 9))]
        run = {"ceilings": {"GFLOP/s": {"bf16": 800e3}, "copies": [{"bytes": 1, "GB/s": 1}, {"bytes": 2, "GB/s": 4500}]},
               "rows": ops}
        names = "kernels", "bandwidth", "attention_25_dropout_0"
        text = report([("bench", name, 0, "") for name in names], {name: run for name in names})
        self.assertIn("| gelu: % of a copy's GB/s | >= 80 | 88.89 | yes |", text)

    def test_attention_is_held_against_the_backends_that_can(self):
        ours = {"ceilings": {"GFLOP/s": {"bf16": 800e3}, "copies": [{"bytes": 1, "GB/s": 1}]},
                "rows": [{"name": f"{model}/bf16/attention{part}", "us": us} for model in ("mpnet-base", "bert-base")
                         for part, us in (("", 30), (" backward", 70))]}
        theirs = [{"backend": backend, "length": 384, "bias": False, "dropout": 0.0, "forward_us": us, "backward_us": us}
                  for backend, us in (("flash", 40), ("math", 100), ("cudnn", None))]
        text = report([("attention", "attention_384_dropout_0", 0, ""), ("attention", "attention of PyTorch", 0, "")],
                      {"attention_384_dropout_0": ours, "attention_pytorch": {"rows": theirs}})
        where = "| attention at 384, no bias, dropout 0.0: ringlet's time over "
        self.assertIn(where + "flash's | <= 1.5 | 1.25 | yes |", text)
        self.assertIn(where + "the best of PyTorch's | <= 2.5 | 1.25 | yes |", text)

    def test_peers_are_those_of_the_first_combination_that_was_compared(self):
        figures = {"pairs_per_s": [100, 120], "step_ms": [320, 300]}
        runs = {"ours": figures, "Sentence Transformers bf16:x": {**figures, "ours_faster_by": [4.5, 4.25]}}
        text = report([("peers", "peers", 0, "")], {"peers": {"results": [{"runs": runs}]}})
        self.assertIn("| times Sentence Transformers, eager, bf16 | >= 4 | 4.38 | yes |", text)

    def test_strategies_say_how_much_they_hide_and_whose_bits_they_have(self):
        rows = [strategy("none", 1, 0), strategy("ddp", 2, 0.75), strategy("fsdp", 2, 0.25)]
        text = report([("comm", "strategies_2", 0, ""), ("comm", EQUALITY, 1, "FAILURE")],
                      {"strategies_2": {"ranks_per_gpu": "1", "rows": rows}})
        self.assertIn("| ddp, 2 ranks: % of collectives hidden | >= 50 | 75.00 | yes |", text)
        self.assertIn("| fsdp, 2 ranks: % of collectives hidden | >= 50 | 25.00 | no |", text)
        self.assertIn("| strategies to the bits of ranks in turn: files that fail | <= 0 | 1.00 | no |", text)

    def test_tables_are_what_the_programs_printed(self):
        text = report([("table", "table_2", 0, "up to 2 ranks share a GPU\n| ddp | 2 |"), ("core", "core", 0, "| no |"),
                       ("peers", "peers", 124, "a round"), ("bench", "step_f32", 75, "nothing")],
                      {"peers": {"results": [{"runs": {}}]}})
        self.assertIn("## table_2\n\n```\nup to 2 ranks share a GPU\n| ddp | 2 |\n```\n", text)
        self.assertIn("## peers, of the rounds there was time for\n\n```\na round\n```\n", text)
        self.assertNotIn("| no |", text)
        self.assertNotIn("nothing\n", text)

    def test_what_a_test_says_it_measured_is_a_figure_where_it_passed(self):
        goal = "| seconds of a run in which a rank is killed | <= 60 |"
        self.assertIn(goal + " 4.25 | yes |", report([("programs", "cli/nccl.cpp, cuda", 0, KILLED)], {}))
        self.assertIn(goal + " not measured | - |", report([("programs", "cli/nccl.cpp, cuda", 1, KILLED)], {}))


if __name__ == "__main__":
    unittest.main()
