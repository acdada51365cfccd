"""What bench/peers/compare.py runs and prints, of rows that were made up."""

import contextlib
import ctypes
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/peers"))
import compare

BEST = {"ATEN_CPU_CAPABILITY": "avx512"}


def row_of(command, replayed):
    """As throughput has it; of theirs there are no graphs."""
    row = {"pairs_per_s": 100.0, "peak_memory_bytes": 1, "peak_tensor_bytes": 2, "step_ms": {"median": 320},
           "devices": 2 if {"dp", "ddp", "fsdp"} & {*command} else 1}
    return {**row, "a_step": {"replayed": replayed}} if "throughput" in command else row


def compared(what, *options, failing=()):
    """(what is printed, {name: (command, environment)} in order)"""
    ran = {}

    def run(name, command, environment, arguments, more=1):
        ran[name] = (command, environment)
        assert compare.pinned(arguments)[:1] == (["taskset"] if arguments.device == "cpu" else [])
        return None if name in failing else row_of(command, 0.9 if "none" in command else 0)

    def kernels(_, environment):
        return "AVX512" if BEST.items() <= environment.items() else "AVX2"

    printed = io.StringIO()
    with mock.patch.object(compare, "run", run), mock.patch.object(compare, "best_environment", lambda _: BEST), \
            mock.patch.object(compare, "kernels_of", kernels), \
            contextlib.redirect_stdout(printed):
        arguments = compare.parse([what, "--throughput", "throughput", "--rounds", "1", *options])
        arguments.compare(arguments)
    return printed.getvalue(), ran


def strategies(*options):
    """(what is printed, the commands of ours, those of theirs)"""
    text, ran = compared("strategies", *options)
    ours, theirs = ([command for command, _ in ran.values() if ("throughput" in command) == is_ours]
                    for is_ours in (True, False))
    return text, ours, theirs


class Strategies(unittest.TestCase):
    def test_the_line_says_whose_steps_are_replayed(self):
        text, _, _ = strategies("--device", "cuda", "--strategy", "none,ddp,fsdp")
        self.assertIn("ringlet's steps: replayed as graphs: none; launched op by op: ddp, fsdp\n", text)

    def test_what_changes_a_step_of_ours_reaches_it_and_not_theirs(self):
        options = ["--transport", "nccl", "--algorithm", "ring", "--step-graphs", "off"]
        _, ours, theirs = strategies("--device", "cuda", "--strategy", "none,ddp", *options)
        for command in ours:
            self.assertEqual([word for word in command if word in options], options)
        for command in theirs:
            self.assertNotIn("--transport", command)

    def test_a_launcher_starts_ours_where_a_device_has_a_process(self):
        _, ours, theirs = strategies("--strategy", "none,ddp,fsdp", "--launcher", "ringlet")
        self.assertEqual(ours[0][0], "throughput")
        for command in ours[1:]:
            self.assertEqual(command[:5], ["ringlet", "run", "--nproc-per-node", "2", "throughput"])
        for command in theirs:
            self.assertNotIn("ringlet", command)

    def test_steps_of_a_cpu_are_no_graphs_and_nothing_is_said(self):
        text, _, _ = strategies("--strategy", "none,ddp")
        self.assertNotIn("replayed", text)

    def test_options_are_as_throughput_has_them_and_what_theirs_cannot_follow_is_said(self):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            _, ours, theirs = strategies("--strategy", "zero1,fsdp", "--strategy=none", "--threads-per-device", "3",
                                         "--padded", "--histogram=lengths.json")
        self.assertEqual(errors.getvalue(), "the peers' table is without --padded, --histogram\n")
        self.assertEqual([command[command.index("--strategy") + 1] for command in ours], ["none", "fsdp"])
        for command in ours:
            self.assertEqual(command[-2:], ["--threads-per-device", "3"])
        for command in theirs:
            self.assertEqual(command[-2:], ["--threads", "3"])
        with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit) as left:
            strategies("--strategy", "zero1,dp")
        self.assertIsNone(left.exception.code)
        self.assertIn("skipped: it has none of --strategy zero1,dp\n", errors.getvalue())
        with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit):
            compared("step", "--python", "a:plain=python", "--bucket", "x")

    def test_on_a_cpu_theirs_run_as_installed_and_at_their_best_and_the_kernels_are_named(self):
        text, ran = compared("strategies", "--strategy", "none,ddp")
        for strategy in ("none", "ddp"):
            installed, best = (ran[f"{side} {strategy}"] for side in (compare.INSTALLED, compare.BEST))
            self.assertEqual(installed[0], best[0])
            self.assertEqual(best[1], {**installed[1], **BEST})
        for side, kernels in ((compare.INSTALLED, "AVX2"), (compare.BEST, "AVX512")):
            self.assertIn(f"| ddp | 2 | {side} | 100.000 (100.000-100.000) | 1.00 (1.00-1.00)x | 1.00 | 0 | {kernels} |", text)
        self.assertNotIn(f"{compare.BEST} none", compared("strategies", "--device", "cuda", "--devices", "1")[1])


class Steps(unittest.TestCase):
    def test_every_combination_has_ours_and_each_python_as_installed_and_at_its_best(self):
        text, ran = compared("step", "--python", "torch=python", "--model", "tiny", "minilm-l6", "--threads", "1", "2")
        self.assertEqual([*ran], ["ours", "torch", "torch at its best"])
        self.assertEqual(ran["torch at its best"][1].items() & BEST.items(), BEST.items())
        self.assertIn("sdpa", ran["torch at its best"][0])
        self.assertEqual(text.count("| ours | 100.000"), 4)
        self.assertEqual(text.count("| AVX512 |"), 4)
        self.assertIn("| minilm-l6 | f32 | 2 | torch | 100.000 (100.000-100.000) | 1.00 (1.00-1.00)x | 0 | AVX2 |",
                      text)

    def test_a_variant_runs_alone_and_a_gpu_has_no_other_kernels(self):
        self.assertEqual([*compared("step", "--python", "torch:tuned=python", "--padded")[1]],
                         ["ours", "ours padded", "torch:tuned"])
        text, ran = compared("step", "--python", "ST:sentence_transformers+bf16+compile=python", "--device", "cuda")
        (ours, _), (theirs, environment) = ran.values()
        self.assertEqual(environment, {})
        self.assertEqual(theirs[theirs.index("--dtype") + 1], "bf16")
        self.assertIn("--compile", theirs)
        self.assertEqual(ours[-4:], ["--device", "cuda", "--idle-steps", "0"])
        self.assertNotIn("AVX", text)

    def test_lengths_reach_every_program_and_flash_attention_the_peer_that_is_to_have_it(self):
        _, ran = compared("step", "--python", "a:sentence_transformers+bf16+flash=python", "--python", "b:sdpa=python",
                          "--device", "cuda", "--histogram", "384.json")
        for command, _ in ran.values():
            self.assertEqual(command[command.index("--histogram") + 1], "384.json")
        attention = [command[command.index("--attention") + 1] for command, _ in list(ran.values())[1:]]
        self.assertEqual(attention, ["flash_attention_2", "sdpa"])

    def test_what_fails_is_left_out_and_named_and_a_wrong_variant_is_refused(self):
        text, _ = compared("step", "--python", "a:plain=python", "--python", "b:plain=python", failing=["a:plain"])
        self.assertIn("failed: a:plain\n", text)
        self.assertNotIn("| a:plain |", text)
        with self.assertRaisesRegex(SystemExit, "expected NAME"):
            compared("step", "--python", "torch:fastest=python")


class AtTheirBest(unittest.TestCase):
    def best(self, vendor, flags):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(compare, "processor", lambda: {
                "vendor_id": vendor, "flags": flags}), mock.patch("os.path.exists", lambda _: True):
            environment = compare.best_environment(folder)
            answers = [path for path in environment["LD_PRELOAD"].split(":") if path.startswith(folder)]
            return environment, [ctypes.CDLL(path).mkl_serv_intel_cpu_true() for path in answers]

    def test_libraries_that_do_not_know_the_processor_are_told(self):
        environment, answers = self.best("AuthenticAMD", "avx2 avx512f")
        self.assertEqual(environment["ATEN_CPU_CAPABILITY"], "avx512")
        self.assertEqual(environment["OPENBLAS_CORETYPE"], "SKYLAKEX")
        self.assertEqual(answers, [1])
        environment, answers = self.best("GenuineIntel", "avx2 avx512f")
        self.assertNotIn("OPENBLAS_CORETYPE", environment)
        self.assertEqual(answers, [])
        self.assertNotIn("ATEN_CPU_CAPABILITY", self.best("GenuineIntel", "avx2")[0])

    def test_the_kernels_are_what_the_libraries_print(self):
        lines = ["torch 2.15.0", "  - CPU capability usage: AVX512", "Core: SkylakeX",
                 "MKL_VERBOSE oneMKL 2024.0 Product build 20231011 for Intel(R) 64 architecture Intel(R) Advanced "
                 "Vector Extensions 2 (Intel(R) AVX2) enabled processors, Lnx 2.60GHz lp64 gnu_thread",
                 "onednn_verbose,info,cpu,isa:Intel AVX-512"]
        with tempfile.TemporaryDirectory() as folder:
            python = pathlib.Path(folder) / "python"
            python.write_text("#!/bin/sh\n[ -n \"$MKL_VERBOSE$OPENBLAS_VERBOSE\" ] && cat <<'END'\n"
                              + "\n".join(lines) + "\nEND\n")
            python.chmod(0o755)
            self.assertEqual(compare.kernels_of(str(python), {}),
                             "PyTorch 2.15.0: ATen AVX512, OpenBLAS SkylakeX, oneDNN Intel AVX-512, MKL AVX2")
        self.assertEqual(compare.kernels_of("false", {}), "unknown")


if __name__ == "__main__":
    unittest.main()
