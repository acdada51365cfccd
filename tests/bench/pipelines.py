"""The model of pipelines and tensor parallelism: its formulas by hand, and how far published tables are from it."""

import json
import math
import pathlib
import sys
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

from pipelines import Mesh, Transformer, bubble, gpipe_rate, weights_of
from scaling import Link, check_bubbles, check_gpipe, check_megatron

DATA = json.loads((BENCH / "data/scaling.json").read_text(encoding="utf8"))
SMALL = Transformer(hidden=1000, layers=10, length=500, vocabulary=2000)


def gpipe_makespan(stages, micro_batches):
    """By simulation: all forwards, then a recomputation and a backward of two units for each micro-batch."""
    free, arrives = [0] * stages, [0] * micro_batches
    for stage in range(stages):
        for k in range(micro_batches):
            free[stage] = arrives[k] = max(free[stage], arrives[k]) + 1
    arrives = [0] * micro_batches
    for stage in reversed(range(stages)):
        for k in range(micro_batches):
            free[stage] = arrives[k] = max(free[stage] + 1, arrives[k]) + 2
    return max(free)


class Formulas(unittest.TestCase):
    def assert_near(self, found, wanted):
        self.assertTrue(math.isclose(found, wanted, rel_tol=1e-9), f"{found} is not {wanted}")

    def test_the_bubbles_are_those_of_the_schedules(self):
        # As tests/train/parallel/model/pipeline_schedule.cpp simulates them.
        self.assert_near(bubble("1F1B", 4, 8), 3 / 11)
        self.assert_near(bubble("1F1B-I", 4, 8, chunks=2), 3 / 19)
        self.assert_near(bubble("ZB-H1", 4, 8), 3 / 27)
        self.assertAlmostEqual(bubble("ZB-H2", 4, 8), 0)
        self.assert_near(bubble("ZB-H1", 4, 8, weights=0.25), 1.5 / 9.5)
        self.assertEqual(bubble("1F1B", 1, 8), 0)

    def test_a_bubble_of_zb_h1_determines_the_part_of_the_weights(self):
        for weights in (0.1, 0.25, 1 / 3):
            self.assert_near(weights_of(bubble("ZB-H1", 8, 24, weights=weights), 8, 24), weights)

    def test_gpipe_recomputes_its_first_micro_batch_in_the_bubble(self):
        for stages in (1, 2, 4, 8):
            for micro_batches in (1, 4, 32):
                step = gpipe_makespan(stages, micro_batches) / (stages * micro_batches)
                self.assert_near(gpipe_rate(stages, micro_batches), 1 / step)

    def test_a_single_gpu_computes_and_sends_nothing(self):
        alone = Mesh(gpus=1, tensor=1, pipe=1, chunks=1, micro=4, batch=8)
        link = Link(node=8, base=1, rate=1, node_rate=1)
        self.assertEqual([alone.exposed(SMALL, link), alone.slots()], [(0, 0), 2])
        self.assert_near(alone.seconds(SMALL, link, 1e12), SMALL.flops(8) / 1e12)
        self.assert_near(SMALL.flops(8), 96 * 8 * 500 * 10 * 1e6 * (1 + 500 / 6000 + 2000 / 160000))

    def test_all_reduces_messages_and_gradients_are_exposed(self):
        link = Link(node=8, rate=1e9, node_rate=4e9)
        message = 2 * 4 * 500 * 1000
        tensor = Mesh(gpus=4, tensor=4, pipe=1, chunks=1, micro=4, batch=8)
        self.assert_near(tensor.exposed(SMALL, link)[0], 6 * 10 * 2 * 0.75 * message / 1e9)
        pipe = Mesh(gpus=16, tensor=8, pipe=2, chunks=1, micro=4, batch=8)
        reduces = 6 * 5 * 2 * 7 / 8 * message / 1e9
        self.assert_near(pipe.exposed(SMALL, link)[0], reduces + 2 * message / 8 / 0.5e9)
        self.assertEqual(pipe.slots(), 2 + 1)
        # Eight rings of two share a node's adapters.
        data = Mesh(gpus=16, tensor=8, pipe=1, chunks=1, micro=4, batch=8)
        gradients = 2 * (12 * 10 * 1e6 + 1000 * 2500) / 8
        self.assert_near(data.exposed(SMALL, link)[1], gradients / 0.5e9)

    def test_chunks_divide_the_bubble(self):
        whole = Mesh(gpus=8, tensor=1, pipe=8, chunks=1, micro=1, batch=24)
        self.assertEqual([whole.slots(), Mesh(8, 1, 8, 2, 1, 24).slots()], [24 + 7, 24 + 3.5])

    def test_the_rate_of_a_gpu_is_that_of_the_step_that_it_was_taken_from(self):
        link, mesh = Link(node=8, rate=1e11, node_rate=1e11), Mesh(32, 4, 2, 1, 2, 64)
        rate = mesh.rate_of(SMALL, link, 5e13)
        self.assertGreater(rate, 5e13)
        self.assert_near(SMALL.flops(64) / 32 / mesh.seconds(SMALL, link, rate), 5e13)

    def test_parameters_are_those_of_the_papers(self):
        for hidden, layers, billions in ((2304, 24, 1.7), (12288, 80, 145.6), (25600, 128, 1008.0)):
            self.assertAlmostEqual(Transformer(hidden, layers, 2048, 51200).parameters() / 1e9, billions, delta=0.1)


class Published(unittest.TestCase):
    def errors(self, checks, table, rows=""):
        """Of a table's rows that are not fitted, in percent."""
        errors = []
        for check in checks:
            if check.fitted:
                self.assertAlmostEqual(check.modelled / check.figure, 1, delta=1e-9)
            elif check.table.startswith(table) and rows in check.row:
                errors.append(100 * check.modelled / check.figure - 100)
        self.assertTrue(errors)
        return errors

    def assert_errors(self, errors, least, most):
        """The smallest and the largest, to half a percent."""
        self.assertAlmostEqual(min(errors), least, delta=0.5)
        self.assertAlmostEqual(max(errors), most, delta=0.5)

    def test_gpipe(self):
        checks = list(check_gpipe(DATA))
        self.assertEqual([len(checks), sum(check.fitted for check in checks)], [24, 4])
        self.assert_errors(self.errors(checks, "GPipe, Transformer-48, TPUs", "M = 32"), -5, -4)
        self.assert_errors(self.errors(checks, "GPipe, Transformer-48, P100s"), 6, 6.5)
        # Faster than its own row of one micro-batch allows.
        self.assert_errors(self.errors(checks, "GPipe, Transformer-48, TPUs", "M = 4"), -37, -13)
        # Its layers cannot be cut into stages of equal time.
        self.assert_errors(self.errors(checks, "GPipe, AmoebaNet-D, TPUs", "M = 32"), 41, 78)

    def test_zero_bubble(self):
        checks = list(check_bubbles(DATA))
        self.assertEqual([len(checks), sum(check.fitted for check in checks)], [48, 4])
        self.assert_errors(self.errors(checks, "", "ZB-H1"), -2.5, 0)
        self.assert_errors(self.errors(checks, "", "1F1B,"), -20.5, -4)
        self.assert_errors(self.errors(checks, "", "1F1B-I"), -20, -6.5)
        self.assert_errors(self.errors(checks, "", "ZB-H2"), 3, 25)

    def test_megatron(self):
        checks = list(check_megatron(DATA))
        self.assertEqual([len(checks), sum(check.fitted for check in checks)], [18, 2])
        self.assert_errors(self.errors(checks, "Megatron-LM 2019"), -2, 11)
        # One rate for matrices of all sizes: larger ones are faster.
        self.assert_errors(self.errors(checks, "Megatron-LM 2021"), -28, -5.5)


if __name__ == "__main__":
    unittest.main()
