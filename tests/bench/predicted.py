"""The speed-ups that bench/predicted.py gives, and the cause of a shortfall: with made-up steps, so that each term is
once the cause."""

import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import predicted
from predicted import blame, machine_of, predictions
from scaling import STRATEGIES, expected_maximum
from predicted_rows import ALONE, LINK, replayed, report, row


def machine(made):
    return machine_of(made, {each["strategy"]: each for each in made["rows"]})


def as_modelled(strategy, step):
    """A row with exactly the modelled times."""
    both = 1e3 * step.compute - ALONE["data"]
    phases = {"data": ALONE["data"], "forward": both / 3, "backward": both * 2 / 3 + 1e3 * (step.exposed - step.gather),
              "optimizer": 1e3 * (step.optimizer + step.gather)}
    return row(strategy, 2, phases, 1e3 * step.exposed)


def markdown(made):
    """On one line, since words are wrapped anywhere."""
    return " ".join(predicted.markdown(made).split())


def of(strategy, made):
    """(modelled, measured, terms)"""
    return next(rest for name, *rest in predictions(made) if name == strategy)


NONE, SIDE = row("none", 1, ALONE), row("unconnected", 2, ALONE, spread=math.sqrt(242) / 341)


class Predicted(unittest.TestCase):
    def near(self, found, wanted, within=1e-6):
        self.assertTrue(math.isclose(found, wanted, rel_tol=within, abs_tol=within), f"{found} is not {wanted}")

    def test_a_step_that_takes_what_the_model_says_is_as_fast_as_predicted_and_nothing_is_beyond(self):
        alone = machine(report(NONE))
        self.near(alone.device.seconds(), 0.341)
        self.near(alone.device.optimizer, 0.040)
        self.assertEqual(alone.device.samples, 32)
        for strategy in STRATEGIES:
            step = alone.step(strategy, 2)
            self.assertGreater(step.exposed, 0)
            modelled, measured, terms = of(strategy, report(NONE, as_modelled(strategy, step)))
            self.near(modelled, 2 * 0.341 / step.seconds())
            self.near(measured, modelled)
            for ms in terms.values():
                self.near(ms, 0)

    def test_ranks_that_stray_as_unconnected_ones_do_wait_as_modelled(self):
        stray = machine(report(NONE, SIDE))
        self.near(stray.device.spread, math.sqrt(242) / 341)
        for strategy in STRATEGIES:
            step = stray.step(strategy, 2)
            self.assertGreater(step.straggler, 0.9 * 0.3 * stray.device.spread / math.sqrt(math.pi))
            made = as_modelled(strategy, step)
            modelled, measured, terms = of(strategy, report(NONE, SIDE, made))
            self.near(measured, modelled)
            for ms in terms.values():
                self.near(ms, 0)
            # Without the spread the waits are blamed: under DP its own computing.
            terms = of(strategy, report(NONE, made))[2]
            self.assertEqual(blame(terms), "compute" if strategy == "dp" else "collectives")
            self.near(sum(terms.values()), 1e3 * step.straggler)
        self.assertIn("strays by 4.6 %, so the slowest of 2 is expected to take 2.6 % longer",
                      markdown(report(NONE, SIDE)))

    def test_without_unconnected_devices_no_rank_strays(self):
        self.assertNotIn("strays", markdown(report(NONE)))
        self.assertEqual(machine(report(NONE)).device.spread, 0)

    def test_each_term_is_to_blame_for_the_ms_that_it_alone_has_beyond_the_model_or_has_not(self):
        alone = machine(report(NONE))
        for strategy in ("dp", "ddp", "fsdp", "zero1"):
            step = alone.step(strategy, 2)
            behind = step.gather / step.exposed
            changes = {"compute": {"backward": 1}, "optimizer": {"optimizer": 1}, "data": {"data": 1},
                       "collectives": {"backward": 1 - behind, "optimizer": behind}}
            for term, shares in changes.items():
                for ms in (30.0, -0.5):
                    made = as_modelled(strategy, step)
                    phases = {phase: made["step_ms"][phase] + ms * shares.get(phase, 0) for phase in ALONE}
                    exposed = made["exposed_ms"] + (ms if term == "collectives" else 0)
                    terms = of(strategy, report(NONE, row(strategy, 2, phases, exposed)))[2]
                    self.assertEqual(blame(terms), term)
                    for name, value in terms.items():
                        self.near(value, ms if name == term else 0)

    def test_the_largest_of_several_terms_is_named_in_the_direction_of_their_sum(self):
        names = "compute", "collectives", "optimizer", "data"
        for values, wanted in (((3, 5, -1, 0), "collectives"), ((3, -5, -1, 0), "collectives"),
                               ((6, -5, 0, 0), "compute"), ((0, 0, 0, 2), "data")):
            self.assertEqual(blame(dict(zip(names, values))), wanted)

    def test_steps_that_are_launched_op_by_op_are_modelled_from_such_a_step(self):
        none = replayed(row("none", 1, {"data": 1, "forward": 80, "backward": 160, "optimizer": 35}))
        side = row("unconnected", 2, {"data": 1, "forward": 110, "backward": 220, "optimizer": 44}, spread=0)
        base = machine(report(none, side))
        step = base.step("ddp", 2)
        self.near(base.device.forward, 0.331 / 3)
        self.near(base.device.optimizer, 0.044)
        waits = 1e3 * step.exposed
        ddp = row("ddp", 2, {"data": 1, "forward": 110, "backward": 220 + waits, "optimizer": 44}, waits)
        modelled, measured, terms = of("ddp", report(none, side, ddp))
        self.near(modelled, 2 * 0.276 / step.seconds())
        self.near(measured, modelled)
        self.near(sum(terms.values()), 0)
        self.assertIn("op by op beside the others it takes 1.36 times as long", markdown(report(none, side, ddp)))

    def test_where_there_is_but_a_replayed_step_its_phases_are_a_guess_and_launches_are_computing(self):
        ddp = row("ddp", 2, {"data": 1, "forward": 120, "backward": 230, "optimizer": 50}, 10)
        made = report(replayed(NONE), ddp)
        base = machine(made)
        self.near(base.device.backward, 2 * base.device.forward)
        self.near(base.device.seconds(), 0.341)
        terms = of("ddp", made)[2]
        self.assertNotIn("optimizer", terms)
        self.near(sum(terms.values()), 401 - 1e3 * base.step("ddp", 2).seconds())
        self.assertIn("its phases are not known", markdown(made))

    def test_a_gpu_computes_beside_its_collectives_and_sends_the_embeddings_gradient_as_a_whole(self):
        gpu, cpu = machine(report(NONE, device="cuda:0")), machine(report(NONE))
        self.assertEqual(gpu.network.rows, 0)
        self.near(cpu.network.rows, 4 * 768 * 900)
        self.assertEqual([gpu.link.share, cpu.link.share], [0, 1])
        self.assertEqual(machine(report(NONE, threads_per_device="2")).link.share, 0.5)
        cpu.network = gpu.network
        self.assertLess(gpu.step("ddp", 2).exposed, cpu.step("ddp", 2).exposed)

    def test_a_replayed_step_of_ranks_has_its_collectives_in_compute(self):
        eager = row("ddp", 2, ALONE, 30)
        measured, graph = (of("ddp", report(NONE, made))[2] for made in (eager, replayed(eager)))
        self.assertEqual(sorted(graph), ["compute", "data"])
        self.near(sum(graph.values()), sum(measured.values()))

    def test_bytes_that_the_columns_of_a_pair_send_separately_are_predicted_separately(self):
        apart = report(NONE, forwards_per_step="one per column")
        self.assertEqual(machine(apart).device.forwards, 2)
        self.assertLess(of("fsdp", apart)[0], of("fsdp", report(NONE))[0])

    def test_another_file_is_one_line_and_exit_code_2(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as other:
            other.write("{}")
            other.flush()
            for name in ("/no/report.json", other.name):
                done = subprocess.run([sys.executable, str(BENCH / "predicted.py"), name], text=True, capture_output=True)
                self.assertEqual(done.returncode, 2)
                self.assertRegex(done.stderr, rf"^predicted\.py: {name}: expected a report of throughput --json: .*\n$")

    def test_the_timed_link_is_the_models(self):
        three = report(NONE, link={**LINK, "ranks": 3})
        for timed in LINK["all_reduce"]:
            self.near(machine(three).link.collective(3, timed["bytes"], 2), timed["us"] * 1e-6)

    def test_the_table_has_measured_figures_beside_modelled_ones_and_the_cause(self):
        side = row("unconnected", 2, {"data": 1, "forward": 110, "backward": 220, "optimizer": 44}, spread=0.01)
        ddp = row("ddp", 2, {"data": 1, "forward": 200, "backward": 400, "optimizer": 81}, 30)
        text = markdown(report(NONE, side, ddp))
        for part in ("| speed-up, measured | speed-up, modelled |", "| ddp | 2 | 1.000 | ", " % | compute, +",
                     "| dp | 2 | - | ", "compute 1.10 times as long as one alone",
                     "4 KiB in 5.0 us, 32 MiB at 5.59 GB/s", f"take {expected_maximum(2):.1f} % longer"):
            self.assertIn(part, text)
        self.assertIn("No speed-up is predicted", markdown(report(row("ddp", 2, ALONE))))


if __name__ == "__main__":
    unittest.main()
