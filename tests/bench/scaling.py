"""The alpha-beta model of bench/scaling.py: its formulas by hand, its limits, and the figures that it must give."""

import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

from scaling import (MIB, STRATEGIES, Device, Link, Machine, Network, check_collectives, check_published,
                     check_reference, check_strategies, expected_maximum, measured_step, read_machine, rows_of,
                     step_of)

DATA = json.loads((BENCH / "data/scaling.json").read_text(encoding="utf8"))
NETWORK = Network(12, 25 * MIB, 90 * MIB, 0, 2 * MIB)


def nodes_of_8(**more):
    return Link("nodes", 8, base=8e-6, hop=3e-6, rate=100e9, node_hop=14e-6, node_rate=50e9, **more)


def device(**more):
    return Device(**{"samples": 32, "forward": 0.01, "backward": 0.02, "optimizer": 0.004, **more})


class Near(unittest.TestCase):
    def assert_near(self, found, wanted):
        self.assertTrue(math.isclose(found, wanted, rel_tol=1e-8, abs_tol=1e-12), f"{found} is not {wanted}")


class Links(Near):
    def test_a_ring_has_n_minus_1_hops_a_pass_and_slower_ones_between_nodes(self):
        link = nodes_of_8()
        self.assert_near(link.ring(8, 100e6, 2), 8e-6 + 14 * 3e-6 + 1.75e-3)
        self.assert_near(link.ring(8, 100e6, 1), 8e-6 + 7 * 3e-6 + 0.875e-3)
        # One of 15 hops leads to the other node and takes 1.4 times its latency.
        self.assert_near(link.ring(16, 100e6, 1), 8e-6 + 14 * 3e-6 + 1.4 * 14e-6 + 15 / 16 * 100e6 / 50e9)

    def test_direct_takes_one_hop_a_pass_and_shares_the_adapters_of_a_node(self):
        link = nodes_of_8()
        self.assert_near(link.direct(8, 100e6, 2), 8e-6 + 2 * 3e-6 + 1.75e-3)
        self.assert_near(link.direct(16, 100e6, 1), 8e-6 + 14e-6 + 8 * 0.5 * 100e6 / 50e9)
        self.assertEqual(link.collective(8, 1e3, 2), link.direct(8, 1e3, 2))
        self.assertEqual(link.collective(16, 100e6, 2), link.ring(16, 100e6, 2))

    def test_nccls_tree_grows_with_the_logarithm_of_the_nodes(self):
        tree = 8e-6 + 2 * (7 * 4e-6 + 5 * 14e-6 + 1e6 / (0.92 * 50e9))
        self.assert_near(nodes_of_8().tree_all_reduce(256, 1e6), tree)
        self.assertGreater(nodes_of_8().collective(256, 1e6, 2), tree)
        self.assert_near(nodes_of_8(tree=True).collective(256, 1e6, 2), tree)
        self.assertEqual(nodes_of_8(tree=True).collective(256, 1e6, 1), nodes_of_8().collective(256, 1e6, 1))

    def test_timed_all_reduces_are_met_and_between_them_lie_on_lines_of_the_logarithms(self):
        link = Link(timed=((1e3, 1e-6), (1e5, 1e-4), (1e6, 4e-4)))
        for size, seconds in ((1e5, 1e-4), (1e4, 1e-5), (10, 1e-6), (1e7, 4e-3)):
            self.assertAlmostEqual(link.collective(2, size, 2), seconds, delta=1e-9 * seconds)
        self.assert_near(link.collective(2, 1e5, 1), 5e-5)
        self.assert_near(link.collective(4, 1e5, 2), 1.5e-4)

    def test_a_collective_never_gets_shorter_with_more_bytes_or_devices(self):
        for tree in (False, True):
            link = nodes_of_8(tree=tree)
            by_size = [link.collective(16, 3 ** k, 2) for k in range(21)]
            by_count = [link.collective(n, 50e6, 2) for n in range(1, 101)]
            self.assertEqual([by_size, by_count], [sorted(by_size), sorted(by_count)])


class Steps(Near):
    def test_one_device_is_what_was_measured_under_every_strategy(self):
        for strategy in STRATEGIES:
            step = Machine(device(), NETWORK, nodes_of_8()).step(strategy, 1)
            self.assert_near(step.seconds(), 0.034)
            self.assert_near(step.exposed, 0)
            self.assertEqual(step.sent, 0)

    def test_over_links_that_take_no_time_n_devices_are_n_times_as_fast_and_sharded_optimizers_faster(self):
        machine = Machine(device(), NETWORK, Link())
        for n in (2, 8, 64):
            for strategy in ("dp", "ddp"):
                self.assert_near(machine.rate(strategy, n), n * 32 / 0.034)
            for strategy in ("zero1", "zero2", "fsdp"):
                self.assert_near(machine.rate(strategy, n), n * 32 / (0.03 + 0.004 / n))

    def test_slower_links_never_help_and_ddp_is_never_faster_than_n_devices(self):
        for strategy in ("ddp", "zero1", "fsdp"):
            for n in (2, 8, 16, 64):
                rates = []
                for k in range(7):
                    link = nodes_of_8()
                    link.rate = link.node_rate = 1e9 * 4 ** k
                    rates.append(Machine(device(), NETWORK, link).rate(strategy, n))
                self.assertEqual(rates, sorted(rates))
                self.assertTrue(strategy != "ddp" or rates[-1] <= n * 32 / 0.034)

    def test_a_bucket_goes_when_its_gradients_are_there_and_the_one_before_it_has_gone(self):
        # The layers' 26 MiB are one bucket of 1 and one of 25; the embeddings' 4 MiB are the last. Each of two devices
        # sends the whole bucket. The buckets are ready at 1.1 and 3.6 s, and take 0.1, 2.5 and 0.4 s.
        network, link = Network(2, 13 * MIB, 0, 0, 4 * MIB), Link(rate=10 * MIB)
        slow = Machine(Device(1, 1, 2.6), network, link).step("ddp", 2)
        self.assert_near(slow.compute, 3.6)
        self.assert_near(slow.exposed, 2.5 + 0.4)
        self.assert_near(slow.sent, 30 * MIB)
        # The second backward of two overlaps the same collectives; the first one sends nothing.
        both = Machine(Device(1, 1, 2.6, accumulations=2), network, link).step("ddp", 2)
        self.assert_near(both.compute, 7.2)
        self.assert_near(both.exposed, 2.9)
        # If the same core does both, nothing is overlapped.
        link.share = 1
        self.assert_near(Machine(Device(1, 1, 2.6), network, link).step("ddp", 2).exposed, 3.0)

    def test_zero_hides_reduce_scatters_behind_backward_and_no_all_gather(self):
        machine = Machine(Device(1, 1, 8, 1), Network(2, 10 * MIB, 0, 0, 4 * MIB), Link(rate=10 * MIB))
        step = machine.step("zero1", 2)
        # A layer's collectives take 0.5 s each way, those of the embeddings 0.2 s.
        self.assert_near(step.exposed, 0.5 + 0.2 + 2 * 0.5 + 0.2)
        self.assert_near(step.gather, 2 * 0.5 + 0.2)
        self.assert_near(step.optimizer, 0.5)
        self.assertEqual([machine.step(other, 2).gather for other in ("dp", "ddp", "fsdp")], [0, 0, 0])

    def test_fsdp_waits_for_the_first_unit_hides_the_others_and_gathers_matrices_in_bf16(self):
        machine = Machine(Device(1, 4, 8, 1), Network(2, 10 * MIB, 0, 0, 4 * MIB), Link(rate=10 * MIB))
        # Exposed: embeddings and the first layer before forward, the last layer before backward; the reduce-scatter of
        # the first layer and of the embeddings. The last layer's is overlapped.
        f32 = machine.step("fsdp", 2)
        self.assert_near(f32.exposed, 0.2 + 0.5 + 0.5 + 0.5 + 0.2)
        self.assert_near(f32.sent, 3 * 12 * MIB)
        machine.device.bf16 = True
        bf16 = machine.step("fsdp", 2)
        self.assert_near(bf16.exposed, 0.2 + 0.25 + 0.25 + 0.5 + 0.2)
        machine.device.forwards = 2
        self.assert_near(machine.step("fsdp", 2).sent, bf16.sent + 7 * MIB)

    def test_a_table_goes_by_rows_until_those_of_all_devices_are_as_many_as_it_has(self):
        machine = Machine(device(), Network(1, MIB, 100 * MIB, 10 * MIB, 0), nodes_of_8())
        sent = [machine.step("ddp", n).sent / MIB for n in (2, 8, 16)]
        for found, wanted in zip(sent, (1 + 10, 1.75 + 70, 2 * 15 / 16 * 101)):
            self.assert_near(found, wanted)

    def test_dp_sends_all_through_the_first_device_which_has_no_more_of_them_than_a_node(self):
        machine, copy = Machine(device(), Network(1, 60e6, 40e6, 0, 0), nodes_of_8()), 8e-6 + 3e-6 + 1e-3
        self.assert_near(machine.step("dp", 4).exposed, 6 * copy)
        machine.link.shared_memory = True
        self.assert_near(machine.step("dp", 4).exposed, 3 * copy)
        with self.assertRaisesRegex(ValueError, "dp is one process: it has 8 devices of nodes at most, not 9"):
            machine.step("dp", 9)

    def test_the_slowest_of_unlike_ranks_sets_the_pace_of_one_it_is_the_mean(self):
        machine = Machine(device(slowest=1.5), NETWORK, Link())
        self.assert_near(machine.step("ddp", 4).compute, 0.045)
        self.assert_near(machine.step("none", 1).compute, 0.03)
        self.assert_near(machine.step("dp", 4).compute, 0.03)  # DP divides one batch

    def test_a_calibrated_device_gives_the_rate_that_it_was_calibrated_to(self):
        machine = Machine(Device(256, optimizer=0.001), NETWORK, nodes_of_8())
        for n in (1, 8, 64):
            machine.calibrate("ddp", n, 1000 * n)
            self.assert_near(machine.rate("ddp", n), 1000 * n)
            self.assert_near(machine.device.backward, 2 * machine.device.forward)


class Stragglers(Near):
    STRAYING = Device(32, 0.1, 0.2, 0.04, spread=0.08)
    SMALL = Network(4, 1e6, 4e6, 0, 1e5)

    def test_the_largest_of_n_normals_is_what_closed_forms_and_tables_say(self):
        root = math.sqrt(math.pi)
        known = {1: 0, 2: 1 / root, 3: 1.5 / root, 4: 6 / root * math.atan(math.sqrt(2)) / math.pi, 10: 1.5387527308,
                 100: 2.5075936382}
        for n, value in known.items():
            self.assertAlmostEqual(expected_maximum(n), value, delta=1e-9 * max(1, value))
        grows = [expected_maximum(2 * 3 ** k) for k in range(13)]
        self.assertEqual(grows, sorted(grows))

    def test_a_step_of_ranks_that_stray_takes_as_long_as_the_slowest_of_drawn_ones(self):
        draw = random.Random(17)
        machine = Machine(self.STRAYING, self.SMALL, Link())
        for n in (2, 3, 8):
            ddp, steps = machine.step("ddp", n), 20000
            drawn = [max(draw.gauss(0.34, 0.08 * 0.34) for _ in range(n)) for _ in range(steps)]
            error = statistics.stdev(drawn) / math.sqrt(steps)
            self.assertLess(abs(ddp.seconds() - statistics.fmean(drawn)), 4 * error)
            self.assert_near(ddp.compute, 0.3)
            self.assert_near(ddp.exposed, ddp.straggler)
            # An n-th of the update has a smaller spread; DP's threads meet before it.
            late = 1 + 0.08 * expected_maximum(n)
            self.assert_near(machine.step("zero1", n).seconds(), (0.3 + 0.04 / n) * late)
            self.assert_near(machine.step("dp", n).compute, 0.3 * late)
            self.assert_near(machine.step("dp", n).exposed, 0)

    def test_waiting_for_the_slowest_comes_on_top_of_collectives_whatever_hides_of_them(self):
        link = Link(rate=1e9)
        for strategy in STRATEGIES:
            for n in (2, 8):
                step = Machine(self.STRAYING, self.SMALL, link).step(strategy, n)
                even = Machine(Device(32, 0.1, 0.2, 0.04), self.SMALL, link).step(strategy, n)
                self.assertGreater(step.straggler, 0)
                self.assert_near(step.seconds(), even.seconds() + step.straggler)
                self.assert_near(step.gather, even.gather)
                self.assertEqual(even.straggler, 0)
            self.assertEqual(Machine(self.STRAYING, self.SMALL, link).step(strategy, 1).straggler, 0)
        self.assert_near(Machine(self.STRAYING, self.SMALL, link).step("none", 8).seconds(), 0.34)


def row(strategy, devices, median, **phases):
    return {"strategy": strategy, "devices": devices, "dtype": "bf16", "pairs_per_s": 32e3 * devices / median,
            "step_ms": {"median": median, **phases}}


class Data(Near):
    def beyond(self, checks, most):
        """The rows with an error above `most`; of fitted ones there is none."""
        errors = {f"{c.table}, {c.row}": c.modelled / c.figure - 1 for c in checks if not c.fitted}
        for check in checks:
            if check.fitted:
                self.assertAlmostEqual(check.modelled / check.figure, 1, delta=0.001)
        return {name for name, error in errors.items() if abs(error) > most}

    def test_bert_large_as_nvidia_published_it(self):
        checks = list(check_published(DATA))
        f16 = [check for check in checks if check.table.startswith("DGX A100, f16")]
        self.assertEqual([len(checks), len(f16)], [42, 18])
        self.assertEqual(self.beyond(f16, 0.05), set())
        # Beyond 64 GPUs TF32 at length 512 scales worse than f16, although f16 sends as much in half the time. SQuAD's
        # steps are short, and one device's rates are rounded to 12 and 52. MLPerf's rows differ in how they pack.
        self.assertEqual(self.beyond(checks, 0.05), {
            "DGX A100, TF32, length 512, 128 devices", "DGX A100, TF32, length 512, 256 devices",
            "DGX-1 V100, f32, SQuAD, 8 devices", "DGX-1 V100, f16, SQuAD, 8 devices", "MLPerf, H100, 64 devices",
            "MLPerf, H100, 768 devices"})
        self.assertEqual(self.beyond(checks, 0.30), set())

    def test_two_ranks_on_a_cpu_are_within_10_percent_but_for_two_rows(self):
        checks = list(check_strategies(DATA))
        self.assertEqual(len(checks), 21)
        # One wait per step for the slower rank explains neither ZeRO-1's waits nor FSDP's.
        self.assertEqual(self.beyond(checks, 0.10),
                         {"minilm-l6, bf16, Zen 4, zero1 x 2", "minilm-l6, f32, Zen 4, fsdp x 2"})
        self.assertEqual(self.beyond(checks, 0.20), set())

    def test_ring_all_reduces_of_two_ranks_from_direct_ones(self):
        checks = list(check_collectives(DATA))
        steady = [check for check in checks if check.table == "shared memory, Zen 4"]
        self.assertEqual(len(checks), 18)
        self.assertEqual(self.beyond(steady, 0.10), {"shared memory, Zen 4, ring, 4 KiB"})

    def test_the_references_ddp_is_met_by_ranks_with_different_data_sets(self):
        checks = list(check_reference(DATA))
        self.assertEqual(len(checks), 9)
        self.assertEqual([round(check.modelled, 2) for check in checks if check.row == "ddp x 4"], [3.96, 3.93, 2.85])

    def test_the_bytes_that_a_rank_sends_are_those_that_were_counted(self):
        entry = next(entry for entry in DATA["measured"] if entry["name"] == "mpnet-base, f32, Zen 4")
        machine = read_machine(DATA, entry)
        self.assert_near(machine.device.samples, 32)
        counted = [row for row in rows_of(entry["throughput"]) if "wire_bytes" in row]
        self.assertEqual(len(counted), 3)
        for each in counted:
            sent = machine.step(each["strategy"], 2).sent
            self.assertAlmostEqual(sent, each["wire_bytes"], delta=0.01 * sent)

    def test_the_step_of_one_device_has_phases_so_it_is_not_a_replayed_one(self):
        side = {**row("unconnected", 2, 5, forward=1, backward=3, optimizer=1), "spread": 0.02}
        rows = {"none": row("none", 1, 3, data=0), "unconnected": side}
        step = measured_step(rows)
        self.assertEqual([step.samples, step.backward, step.bf16, step.spread], [32, 3e-3, True, 0.02])
        with self.assertRaisesRegex(ValueError, "expected a row of strategy none or unconnected, with phases"):
            measured_step({"none": rows["none"]})

    def test_forward_and_backward_share_in_their_proportion_what_the_optimizer_leaves_of_a_step(self):
        for median, forward in ((350, 0.1), (650, 0.2)):
            step = step_of(row("none", 1, median, forward=100, backward=200, optimizer=50))
            self.assert_near(step.forward, forward)
            self.assert_near(step.seconds(), median / 1e3)

    def test_an_encoders_network_is_that_of_its_parameters(self):
        shape = {"layers": 6, "hidden": 384, "intermediate": 1536, "vocabulary": 30522, "positions": 512, "types": 2}
        network = Network.of(shape, 4, 900)
        self.assert_near(network.bytes(), 4 * 22_565_376)  # sentence-transformers/all-MiniLM-L6 without its pooler
        self.assertEqual(network.rows, 4 * 900 * 384)


class Program(unittest.TestCase):
    def run_it(self, *arguments):
        return subprocess.run([sys.executable, str(BENCH / "scaling.py"), *arguments], text=True, capture_output=True,
                              check=False, cwd=tempfile.gettempdir())

    def test_it_says_of_every_figure_that_it_is_modelled(self):
        done = self.run_it()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| strategy | devices | pairs/s, modelled | speed-up, modelled |", done.stdout)
        self.assertIn("| ddp | 8 | 73022 | 6.75 |", done.stdout)

    def test_it_starts_from_the_step_that_throughput_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report.json"
            report.write_text(json.dumps({"rows": [row("none", 1, 320, forward=90, backward=180, optimizer=50)]}))
            relative = str(report.relative_to(tempfile.gettempdir()))
            done = self.run_it("--machine", "H200, bf16, mpnet-base", "--throughput", relative, "--devices", "1,2")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("| none | 1 | 100 | 1.00 | 320.00 |", done.stdout)
            self.assertIn("forward 90.00 ms", done.stdout)
            self.assertEqual(done.stdout.count("| 2 |"), 4)

    def test_a_wrong_option_is_named(self):
        for options, line in ((["--machine", "abacus"], "unknown machine 'abacus'; H200, bf16"),
                              (["--throughput", "x"], "--throughput needs --machine: whose links and network"),
                              (["--devices", "0.5"], "argument --devices: ")):
            done = self.run_it(*options)
            self.assertEqual([done.returncode, done.stdout], [2, ""])
            self.assertIn(line, done.stderr)
        done = self.run_it("--machine", "H200, bf16, mpnet-base", "--throughput", "/no/report.json")
        self.assertEqual(done.stderr, "scaling.py: [Errno 2] No such file or directory: '/no/report.json'\n")


if __name__ == "__main__":
    unittest.main()
