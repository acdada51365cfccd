"""The Python module `ringlet` and the program of that name give the same bits and the same messages."""
import gc
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

try:
    import numpy
except ImportError:
    print("skipped: there is no NumPy")
    sys.exit(77)
import ringlet

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/docs"))
from blocks import blocks

MODEL = ROOT / "tests/oracles/mpnet"
TEXTS = ["A dog runs.", "", "Zwei Hunde, ähnlich.", "A dog runs."]


def program(*words, text=""):
    return subprocess.run([os.environ["RINGLET_PROGRAM"], *words], input=text, text=True, capture_output=True)


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Encoding(Scratch):
    def test_embeddings_are_the_command_lines_bit_for_bit(self):
        output = self.folder / "e.npy"
        run = program("encode", "-", "--model", MODEL, "--output", output, text="\n".join(TEXTS) + "\n")
        self.assertEqual(run.returncode, 0, run.stderr)
        embeddings = ringlet.SentenceEncoder(MODEL).encode(TEXTS)
        self.assertEqual(embeddings.dtype, numpy.float32)
        self.assertEqual(embeddings.shape, (len(TEXTS), ringlet.SentenceEncoder(MODEL).dimension))
        self.assertEqual(embeddings.tobytes(), numpy.load(output).tobytes())

    def test_a_prompt_goes_before_each_text(self):
        encoder = ringlet.SentenceEncoder(MODEL)
        expected = encoder.encode(["query: a dog", "query: two cats"])
        self.assertEqual(encoder.encode(["a dog", "two cats"], prompt="query: ").tobytes(), expected.tobytes())

    def test_the_array_is_the_tensors_memory_and_keeps_it(self):
        encoder = ringlet.SentenceEncoder(str(MODEL))
        embeddings = encoder.encode(TEXTS)
        self.assertIsInstance(embeddings.base, ringlet.Tensor)
        self.assertEqual(embeddings.base.data_ptr(), embeddings.ctypes.data)
        copy = embeddings.copy()
        del encoder
        gc.collect()
        numpy.testing.assert_array_equal(embeddings, copy)
        embeddings /= 2  # writable
        self.assertIs(embeddings.base.numpy().base, embeddings.base)
        numpy.testing.assert_array_equal(embeddings.base.numpy(), copy / 2)

    def test_two_threads_encode_with_one_model_and_with_two(self):
        one, other = ringlet.SentenceEncoder(MODEL), ringlet.SentenceEncoder(MODEL)
        expected = one.encode(TEXTS).tobytes()
        for encoders in [(one, one), (one, other)]:
            found = [[], []]

            def encode(i):
                found[i] = [encoders[i].encode(TEXTS).tobytes() for _ in range(20)]

            threads = [threading.Thread(target=encode, args=(i,)) for i in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(found, [[expected] * 20] * 2)

    def test_another_thread_runs_during_encode(self):
        encoder = ringlet.SentenceEncoder(MODEL)
        ran, start = [], threading.Event()
        thread = threading.Thread(target=lambda: start.wait() and ran.append(True))
        thread.start()
        interval = sys.getswitchinterval()
        sys.setswitchinterval(3600)  # no thread takes the interpreter from another one
        try:
            start.set()
            while not ran:  # endless if encode kept the interpreter to itself
                encoder.encode(TEXTS * 100)
        finally:
            sys.setswitchinterval(interval)
        thread.join()


class DLPack(unittest.TestCase):
    def test_a_tensor_shares_an_arrays_memory(self):
        for dtype in ["float32", "float64", "float16", "int32", "int64", "uint8"]:
            array = numpy.arange(6, dtype=dtype).reshape(2, 3)
            tensor = ringlet.from_dlpack(array)
            self.assertEqual((tensor.shape, tensor.data_ptr()), ((2, 3), array.ctypes.data))
            array[1, 2] = 9
            del array
            gc.collect()
            self.assertEqual(tensor.numpy().tolist(), [[0, 1, 2], [3, 4, 9]])
            self.assertEqual(tensor.numpy().dtype, dtype)

    def test_arrays_have_the_tensors_shape_and_strides(self):
        for shape in (), (5,), (0, 3), (2, 0), (2, 3, 4):
            array = numpy.random.default_rng(1).random(shape)
            tensor = ringlet.from_dlpack(array)
            for found in tensor.numpy(), numpy.asarray(tensor):
                numpy.testing.assert_array_equal(found, array)
                self.assertIs(found.base, tensor)
                self.assertTrue(found.flags.c_contiguous and found.flags.writeable)

    def test_an_array_shares_a_tensors_memory(self):
        tensor = ringlet.SentenceEncoder(MODEL).encode(TEXTS, convert_to_tensor=True)
        self.assertEqual(tensor.__dlpack_device__(), (1, 0))
        array = numpy.from_dlpack(tensor)
        self.assertEqual(array.ctypes.data, tensor.data_ptr())
        expected = tensor.numpy().copy()
        del tensor
        gc.collect()
        numpy.testing.assert_array_equal(array, expected)

    def test_a_capsule_that_is_not_used_is_freed_and_one_is_used_once(self):
        array = numpy.zeros(3, "float32")
        tensor = ringlet.from_dlpack(array)
        before = sys.getrefcount(array)
        tensor.__dlpack__()  # lets go of the tensor's memory again
        del tensor
        self.assertEqual(sys.getrefcount(array), before - 1)

        class Once:
            capsule = array.__dlpack__()

            def __dlpack__(self):
                return self.capsule

        ringlet.from_dlpack(Once())
        with self.assertRaises(ValueError):
            ringlet.from_dlpack(Once())

    def test_strided_memory_is_copied(self):
        array = numpy.arange(6, dtype="float32").reshape(2, 3).T
        tensor = ringlet.from_dlpack(array)
        self.assertNotEqual(tensor.data_ptr(), array.ctypes.data)
        self.assertEqual(tensor.numpy().tolist(), [[0, 3], [1, 4], [2, 5]])

    def test_pytorch_shares_memory_both_ways(self):
        try:
            import torch
        except ImportError:
            self.skipTest("there is no PyTorch")
        source = torch.arange(4, dtype=torch.bfloat16)
        tensor = ringlet.from_dlpack(source)
        self.assertEqual((tensor.dtype, tensor.data_ptr()), ("bf16", source.data_ptr()))
        self.assertEqual(torch.from_dlpack(tensor).data_ptr(), source.data_ptr())
        with self.assertRaisesRegex(ringlet.InputError, "NumPy has no dtype bf16"):
            tensor.numpy()


class Training(Scratch):
    OPTIONS = "model = 'tiny'\nmax-steps = 2\nbatch = 4\nno-progress = true\n"

    def config(self, text=OPTIONS):
        path = self.folder / "run.toml"
        path.write_text(text)
        return path

    def weights(self, name):
        return (self.folder / name / "model/model.safetensors").read_bytes()

    def test_the_model_is_the_command_lines_on_one_device_and_two(self):
        for name, options in {"one": {}, "two": {"strategy": "ddp", "devices": 2}}.items():
            words = [f"--{key}={value}" for key, value in options.items()]
            run = program("train", "--config", self.config(), "--output", self.folder / f"program_{name}", *words)
            self.assertEqual(run.returncode, 0, run.stderr)
            ringlet.train(self.config(), output=self.folder / name, no_progress=True, **options)
            self.assertEqual(self.weights(name), self.weights(f"program_{name}"))
        encoder = ringlet.SentenceEncoder(self.folder / "two/model")
        self.assertEqual(encoder.encode(TEXTS).shape, (len(TEXTS), encoder.dimension))

    def test_a_memory_limit_ends_with_the_run(self):
        ringlet.train(self.config(), output=self.folder / "out", memory_limit="40MiB")
        encoder = ringlet.SentenceEncoder(self.folder / "out/model")
        # The feed-forward layer of one batch has more than 40 MiB.
        texts = [f"{n} dogs and {n * n} cats run after {n + 1} children." for n in range(4000)]
        self.assertEqual(encoder.encode(texts, batch_tokens=1 << 20).shape, (4000, encoder.dimension))

    def test_ctrl_c_saves_a_checkpoint_and_is_a_keyboard_interrupt(self):
        output = self.folder / "out"
        code = f"import ringlet; ringlet.train({str(self.config())!r}, output={str(output)!r}, max_steps=1000000)"
        process = subprocess.Popen([sys.executable, "-c", code], text=True, stderr=subprocess.PIPE)
        while process.poll() is None and not (output / "metrics.jsonl").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        error = process.communicate()[1]
        self.assertRegex(error, r"\nKeyboardInterrupt: SIGINT after step \d+ of 1000000: saved .*; --resume goes on")
        self.assertTrue(list(output.glob("checkpoint-*")))

    def test_bad_options_are_the_command_lines_line_as_an_exception(self):
        output = self.folder / "out"
        for text, options in [("epoch = 1\n", {}), ("[train]\n", {}), (self.OPTIONS, {"batch": "many"}),
                              (self.OPTIONS, {"max_step": 1}), (self.OPTIONS, {"data": ["a.csv", "b.csv"]})]:
            words = [f"--{key.replace('_', '-')}={value}" for key, values in options.items()
                     for value in (values if isinstance(values, list) else [values])]
            run = program("train", "--config", self.config(text), "--output", output, *words)
            self.assertEqual(run.returncode, 2)
            with self.assertRaises(ringlet.InputError) as raised:
                ringlet.train(self.config(text), output=output, **options)
            self.assertEqual(f"ringlet: {raised.exception}\n", run.stderr)
            self.assertFalse(output.exists())


class Documentation(Scratch):
    def test_the_example_runs(self):
        (self.folder / "train").symlink_to(ROOT / "train")
        rows = "".join(f"A dog runs {n} times.,A cat sleeps.,{n % 6}\n" for n in range(64))
        for name in "stsb-train.csv", "stsb-dev.csv":
            (self.folder / name).write_text(rows)
        example = next(text for _, language, text in blocks(ROOT / "docs/embed.md") if language == "python")
        code = example + "assert embeddings.shape == (2, encoder.dimension) and array.ctypes.data == tensor.data_ptr()"
        run = subprocess.run([sys.executable, "-c", code], cwd=self.folder, text=True, capture_output=True)
        self.assertEqual(run.returncode, 0, run.stderr)


class Errors(Scratch):
    def test_an_error_is_an_exception_with_the_librarys_text(self):
        self.assertTrue(issubclass(ringlet.InputError, ringlet.Error))
        self.assertTrue(issubclass(ringlet.InputError, ValueError))
        with self.assertRaisesRegex(ringlet.InputError, f"^{self.folder}/absent: "):
            ringlet.SentenceEncoder(self.folder / "absent")
        with self.assertRaisesRegex(ringlet.InputError, "^--device cuda:99: "):
            ringlet.SentenceEncoder(MODEL, device="cuda:99")
        with self.assertRaisesRegex(ringlet.InputError, "^prompt name 'absent': expected"):
            ringlet.SentenceEncoder(MODEL).encode(["a"], prompt_name="absent")
        with self.assertRaisesRegex(ringlet.Error, "from_dlpack.* dtype of code 0, 16 bits"):
            ringlet.from_dlpack(numpy.zeros(2, "int16"))
        with self.assertRaises(TypeError):
            ringlet.SentenceEncoder(MODEL).encode("one text")


if __name__ == "__main__":
    unittest.main(verbosity=2)
