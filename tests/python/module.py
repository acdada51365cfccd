"""The Python package `ringlet` and the program of that name give the same bits and the same messages."""
import ast
import contextlib
import datetime
import gc
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock

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


def oracle(path, name):
    """A float32 tensor of a SafeTensors file: the header's length, the header, the data."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    of = json.loads(data[8:8 + size])[name]
    begin, end = of["data_offsets"]
    return numpy.frombuffer(data[8 + size + begin:8 + size + end], "float32").reshape(of["shape"])


class Encoding(Scratch):
    def test_embeddings_are_those_of_sentence_transformers(self):
        texts = (ROOT / "tests/oracles/sentences.txt").read_text().split("\n")[:-1]
        for name in "mpnet", "bert", "xlmr", "roberta", "distilbert":
            found = ringlet.SentenceEncoder(ROOT / "tests/oracles" / name).encode(texts)
            expected = oracle(ROOT / f"tests/oracles/{name}.safetensors", "encode/embeddings")
            numpy.testing.assert_allclose(found, expected, atol=1e-6, rtol=1e-6, err_msg=name)

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

    def test_any_sequence_of_texts_is_encoded_and_a_single_text_has_no_rows(self):
        encoder = ringlet.SentenceEncoder(MODEL)
        expected = encoder.encode(TEXTS)
        for texts in tuple(TEXTS), numpy.array(TEXTS), dict.fromkeys(TEXTS[:3]), (text for text in TEXTS):
            found = encoder.encode(texts)
            numpy.testing.assert_array_equal(found, expected[:len(found)])
        numpy.testing.assert_array_equal(encoder.encode(TEXTS[0]), expected[0])
        self.assertEqual(encoder.encode([]).shape, (0, encoder.dimension))
        with self.assertRaisesRegex(TypeError, "encode: expected texts, found int at index 1"):
            encoder.encode(["a", 1])

    def test_neither_batches_nor_a_progress_bar_change_bits(self):
        encoder = ringlet.SentenceEncoder(MODEL)
        texts = [f"{n} dogs" for n in range(1500)]
        expected = encoder.encode(texts).tobytes()
        with contextlib.redirect_stderr(io.StringIO()) as printed:
            self.assertEqual(encoder.encode(texts, batch_size=3, show_progress_bar=True).tobytes(), expected)
        self.assertEqual(printed.getvalue(), "\r1024/1500 texts\r1500/1500 texts\n")

    def test_embeddings_are_cut_then_normalised_then_quantised(self):
        encoder = ringlet.SentenceEncoder(MODEL)
        texts = [f"{n} dogs and {n * n} cats" for n in range(200)]
        cut = encoder.encode(texts)[:, :24].astype("float64")
        cut /= numpy.linalg.norm(cut, axis=1, keepdims=True)
        how = dict(truncate_dim=24, normalize_embeddings=True)
        numpy.testing.assert_allclose(encoder.encode(texts, **how), cut, atol=1e-6)
        low, high = cut.min(axis=0), cut.max(axis=0)
        levels = encoder.encode(texts, precision="uint8", **how)
        self.assertEqual(levels.dtype, "uint8")
        error = cut - (low + levels * (high - low) / 255)  # of rounding down
        self.assertTrue(-1e-6 < error.min() and error.max() < (high - low).max() / 255 + 1e-6)
        signed = encoder.encode(texts, precision="int8", **how)
        self.assertEqual(signed.dtype, "int8")
        exact = encoder.encode(texts, **how)
        steps = (exact.max(axis=0) - exact.min(axis=0)) / 255
        numpy.testing.assert_array_equal(signed, numpy.trunc((exact - exact.min(axis=0)) / steps - 128))
        bits = encoder.encode(texts, precision="ubinary", **how)
        self.assertEqual((bits.dtype, bits.shape), ("uint8", (200, 3)))
        numpy.testing.assert_array_equal(numpy.unpackbits(bits, axis=1), cut > 0)
        numpy.testing.assert_array_equal(encoder.encode(texts, precision="binary", **how), bits.astype(int) - 128)
        with self.assertWarnsRegex(UserWarning, "the ranges are of 2 embeddings"):
            encoder.encode(texts[:2], precision="int8")

    def test_queries_and_documents_have_their_prompts(self):
        folder = self.folder / "model"
        encoder = ringlet.SentenceEncoder(MODEL)
        encoder.save_pretrained(folder)
        config = json.loads((folder / "config_sentence_transformers.json").read_text())
        config.update(prompts={"query": "find: ", "other": "other: "}, default_prompt_name="other")
        (folder / "config_sentence_transformers.json").write_text(json.dumps(config))
        prompted = ringlet.SentenceEncoder(folder)
        self.assertEqual((prompted.prompts, prompted.default_prompt_name), (config["prompts"], "other"))
        for found, text in [(prompted.encode("a"), "other: a"), (prompted.encode_query("a"), "find: a"),
                            (prompted.encode_document("a"), "a"), (prompted.encode_query("a", "other"), "other: a"),
                            (prompted.encode_document(["a"], prompt="b ")[0], "b a")]:
            numpy.testing.assert_array_equal(found, encoder.encode(text))

    def test_a_saved_folder_has_the_same_embeddings_and_length(self):
        encoder = ringlet.SentenceEncoder(MODEL)
        encoder.max_seq_length = 5
        encoder.save_pretrained(self.folder / "model")
        saved = ringlet.SentenceEncoder(self.folder / "model", truncate_dim=8)
        self.assertEqual((saved.max_seq_length, saved.get_max_seq_length(), saved.device), (5, 5, "cpu:0"))
        self.assertEqual((saved.truncate_dim, saved.get_sentence_embedding_dimension()), (8, 8))
        long = "A dog runs over the green field."
        numpy.testing.assert_array_equal(saved.encode(long), encoder.encode(long)[:8])
        self.assertTrue((encoder.encode(long) != ringlet.SentenceEncoder(MODEL).encode(long)).any())
        with self.assertRaisesRegex(ValueError, "max_seq_length: expected 1 to 132, found 0"):
            encoder.max_seq_length = 0

    def test_calling_the_model_embeds_tokens(self):
        encoder = ringlet.SentenceEncoder(MODEL)
        features = encoder.tokenize(TEXTS)
        ids, mask = features["input_ids"], features["attention_mask"]
        self.assertEqual((ids.dtype, ids.shape), ("int64", mask.shape))
        self.assertEqual([row[:n].tolist() for row, n in zip(ids, mask.sum(1))],
                         [encoder.tokenizer.encode(text) for text in TEXTS])
        self.assertEqual(set(ids[mask == 0]), {encoder.tokenizer.pad_token_id})
        self.assertEqual(encoder.tokenizer.decode(ids[0]), "a dog runs.")
        found = encoder(features)["sentence_embedding"]
        numpy.testing.assert_array_equal(numpy.asarray(found), encoder.encode(TEXTS))
        for wrong in [{"input_ids": ids, "attention_mask": 0 * mask}, {"input_ids": ids, "attention_mask": mask[:2]},
                      {"input_ids": ids + 1000, "attention_mask": mask}]:
            with self.assertRaises(ValueError):
                encoder(wrong)

    def test_similarities_are_the_folders(self):
        a, b = numpy.random.default_rng(1).standard_normal((2, 4, 6)).astype("float32")
        b[1] = 0
        of = {"cosine": lambda x, y: x @ y / max(1e-12, numpy.linalg.norm(x) * numpy.linalg.norm(y)),
              "dot": lambda x, y: x @ y, "euclidean": lambda x, y: -numpy.sqrt(((x - y) ** 2).sum()),
              "manhattan": lambda x, y: -numpy.abs(x - y).sum()}
        for name, function in of.items():
            ringlet.SentenceEncoder(MODEL, similarity_fn_name=name).save_pretrained(self.folder / name)
            encoder = ringlet.SentenceEncoder(self.folder / name)
            self.assertEqual(encoder.similarity_fn_name, name)
            expected = [[function(x, y) for y in b] for x in a]
            numpy.testing.assert_allclose(encoder.similarity(a, b), expected, rtol=1e-5, atol=1e-6)
            numpy.testing.assert_allclose(encoder.similarity(a[0], b), expected[:1], rtol=1e-5, atol=1e-6)
            numpy.testing.assert_allclose(encoder.similarity_pairwise(a, b), numpy.diagonal(expected), rtol=1e-5, atol=1e-6)
        with self.assertRaisesRegex(ValueError, r"\(4, 6\) and \(4, 5\)"):
            encoder.similarity(a, b[:, :5])
        encoder.similarity_fn_name = types.SimpleNamespace(value="dot")  # as Sentence Transformers' enum
        numpy.testing.assert_allclose(encoder.similarity(a, b), a @ b.T, rtol=1e-5, atol=1e-6)
        with self.assertRaisesRegex(ringlet.InputError, "^similarity_fn_name 'l2' is not supported; expected cosine"):
            encoder.similarity_fn_name = "l2"
        self.assertEqual(encoder.similarity_fn_name, "dot")

    def test_figures_of_a_file_are_the_programs(self):
        data = self.folder / "stsb.csv"
        data.write_text("".join(f"A dog runs {n} times.,A cat sleeps {n % 3} times.,{n % 6}\n" for n in range(20)))
        run = program("evaluate", "--model", MODEL, "--data", data, "--json")
        figures = ringlet.SentenceEncoder(MODEL).evaluate(data)
        self.assertGreaterEqual(len(figures), 2)
        self.assertEqual(figures, {name: json.loads(run.stdout)[name] for name in figures})
        encoder = ringlet.SentenceEncoder(MODEL)

        def evaluator(model, output_path):  # as those of Sentence Transformers
            embeddings = model.encode(TEXTS, batch_size=32, show_progress_bar=False, convert_to_numpy=True, precision=None)
            model.model_card_data.set_evaluation_metrics(self, {"rows": len(embeddings)}, 0, 0)
            return {"rows": len(embeddings), "output": output_path}

        self.assertEqual(encoder.evaluate(evaluator, "out"), {"rows": len(TEXTS), "output": "out"})

    def test_an_argument_without_support_is_named(self):
        encoder = ringlet.SentenceEncoder(MODEL)
        for error, name, options in [(TypeError, "pool", {"pool": 1}), (ValueError, "precision", {"precision": "int4"}),
                                     (ValueError, "output_value", {"output_value": "token_embeddings"}),
                                     (ValueError, "batch_size", {"batch_size": 0}),
                                     (ValueError, "truncate_dim", {"truncate_dim": 0}),
                                     (ValueError, "device", {"device": "tpu"})]:
            for method in encoder.encode, encoder.encode_query:
                with self.assertRaisesRegex(error, name):
                    method(["a"], **options)

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
        tensor = ringlet.SentenceEncoder(MODEL).encode(TEXTS).base
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
        encoder = ringlet.SentenceEncoder(MODEL)
        embeddings = encoder.encode(TEXTS, convert_to_tensor=True)
        self.assertIsInstance(embeddings, torch.Tensor)
        self.assertIsInstance(encoder.similarity(embeddings, embeddings), torch.Tensor)
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
        self.assertEqual(encoder.encode(texts, batch_size=10000).shape, (4000, encoder.dimension))

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
                              (self.OPTIONS, {"data": ["a.csv", "b.csv"]})]:
            words = [f"--{key.replace('_', '-')}={value}" for key, values in options.items()
                     for value in (values if isinstance(values, list) else [values])]
            run = program("train", "--config", self.config(text), "--output", output, *words)
            self.assertEqual(run.returncode, 2)
            with self.assertRaises(ringlet.InputError) as raised:
                ringlet.train(self.config(text), output=output, **options)
            self.assertEqual(f"ringlet: {raised.exception}\n", run.stderr)
            self.assertFalse(output.exists())


    def test_names_of_hugging_face_are_options_and_the_result_has_the_figures(self):
        data = self.folder / "pairs.csv"
        data.write_text("anchor,positive\n" + "".join(f"A dog runs {n} times.,A cat sleeps {n}.\n" for n in range(40)))
        words = ["--model=tiny", "--batch=8", "--lr=0.002", "--warmup=2", f"--data={data}", "--no-shuffle", "--max-steps=4"]
        run = program("train", "--output", self.folder / "program", *words)
        self.assertEqual(run.returncode, 0, run.stderr)
        result = ringlet.train(model="tiny", per_device_train_batch_size=8, learning_rate=0.002, warmup_steps=2,
                               train_dataset=[data], shuffle=False, max_steps=4, output_dir=self.folder / "out", bf16=False,
                               eval_dataset=None)
        self.assertEqual(self.weights("out"), self.weights("program"))
        self.assertEqual(result.folder, self.folder / "out/model")
        self.assertEqual((result.history[-1]["step"], result.metrics["step"]), (4, 4))
        self.assertEqual(result.metrics["loss"], result.history[-1]["loss"])
        for name, near in ("learning_rte", "learning_rate"), ("max_step", "max_steps"), ("no_progres", "no_progress"):
            with self.assertRaisesRegex(TypeError, f"no argument '{name}'; did you mean {near}"):
                ringlet.train(**{name: 1})

    def test_rows_in_memory_train_as_a_files(self):
        rows = [{"anchor": f"A dog runs {n} times.", "positive": f"A cat sleeps “{n}”."} for n in range(40)]
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        file = self.folder / "pairs.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))

        class Dataset:  # as that of Hugging Face
            column_names = list(columns)

            def __getitem__(self, name):
                return columns[name]

        how = dict(model="tiny", batch=8, max_steps=4, save_steps=4, no_progress=True)
        kinds = {"file": file, "rows": rows, "columns": columns, "dataset": Dataset()}
        for name, data in kinds.items():
            result = ringlet.train(data=data, eval=data, output=self.folder / name, **how)
            self.assertEqual(self.weights(name), self.weights("file"), name)
        self.assertIn("eval_loss", {key for key in result.metrics})
        ringlet.train(data=rows, audit_steps=2, output=self.folder / "audited", **how)
        audit = program("audit", self.folder / "audited")
        self.assertEqual(audit.returncode, 1)
        self.assertRegex(audit.stderr, "^ringlet: .*/audit.jsonl: data was rows in memory or a pipe: .*\n$")
        scores = {"sentence1": ["a", "b"] * 8, "sentence2": ["c"] * 16, "label": numpy.array([1, 0] * 8)}
        both = ringlet.train(data=[file, scores], devices=2, strategy="ddp", output=self.folder / "both", **how)
        self.assertEqual(both.metrics["step"], 4)
        resumed = ringlet.train(data=rows, eval=rows, output=self.folder / "rows", resume=True, **how)
        self.assertEqual(resumed.metrics["step"], 4)
        for wrong, message in [([{"anchor": "a", "positive": "b"}, {"anchor": "a", "positive": None}], "^data:2: "),
                               ({"sentence1": ["a"], "sentence2": []}, "different lengths: sentence1 1, sentence2 0"),
                               ([], "^data: empty: expected at least one row")]:
            with self.assertRaisesRegex(ValueError, message):
                ringlet.train(data=wrong, output=self.folder / "wrong", **how)
        day = datetime.date(2026, 1, 2)
        for error, value, message in [(TypeError, day, "a text or a number, found date"), (TypeError, b"a", "a text .* found bytes"),
                                      (TypeError, {1}, "a text .* found set"), (TypeError, numpy.zeros(2), "a text .* found ndarray"),
                                      (TypeError, numpy.datetime64(day, "ns"), "a text .* found datetime64"),
                                      (ValueError, float("nan"), "a finite number, found nan"),
                                      (ValueError, numpy.float32("-inf"), "a finite number, found -inf")]:
            for wrong in [{"sentence1": ["a"], "score": [value]}, [{"sentence1": "a", "score": value}]]:
                with self.assertRaisesRegex(error, "^data:1: column 'score': expected " + message + "$"):
                    ringlet.train(data=wrong, output=self.folder / "wrong", **how)

    def test_two_threads_train_one_after_the_other(self):
        rows = [[{"anchor": f"A dog runs {n} times.", "positive": f"{i} cats sleep {n}."} for n in range(40)] for i in range(2)]

        def train(name, i):
            ringlet.train(model="tiny", data=rows[i], batch=8, max_steps=40, output=self.folder / name)

        with contextlib.redirect_stdout(io.StringIO()) as printed:
            threads = [threading.Thread(target=train, args=(f"thread{i}", i)) for i in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for i in range(2):
                train(f"alone{i}", i)
                self.assertEqual(self.weights(f"thread{i}"), self.weights(f"alone{i}"))
        self.assertEqual(printed.getvalue().count("\n40 steps, mean loss"), 4)
        os.fstat(1)  # open

    def test_hugging_faces_warmup_and_resume_mean_what_they_mean_there(self):
        how = dict(model="tiny", max_steps=4, batch=4)
        for name, keywords in {"steps": dict(warmup_steps=2, warmup_ratio=0.0),
                               "ratio": dict(warmup_steps=0, warmup_ratio=0.5)}.items():
            ringlet.train(output=self.folder / name, **how, **keywords)
        self.assertEqual(self.weights("steps"), self.weights("ratio"))
        with self.assertRaisesRegex(ValueError, "^warmup_ratio 1.0: expected less than 1"):
            ringlet.train(output=self.folder / "all", warmup_ratio=1.0, **how)
        with self.assertRaisesRegex(ValueError, "^resume_from_checkpoint out: expected True or False"):
            ringlet.train(output=self.folder / "path", resume_from_checkpoint="out", **how)

    def test_what_it_prints_goes_through_sys_stdout(self):
        for strategy, devices in ("none", 1), ("ddp", 2):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                ringlet.train(self.config("model = 'tiny'\nmax-steps = 2\nbatch = 4\n"),
                              output=self.folder / strategy, strategy=strategy, devices=devices)
            self.assertRegex(printed.getvalue(), r"(?s)no --data.*step 1/2.*step 2/2.*\n2 steps, mean loss .*; wrote ")
            self.assertNotIn("\r", printed.getvalue())
        printed = io.StringIO()
        printed.write = lambda text, write=printed.write: (sys.__stdout__.write(text), write(text))[1]  # a copy
        with contextlib.redirect_stdout(printed):
            ringlet.train(model="tiny", max_steps=2, batch=4, output=self.folder / "copied")
        self.assertEqual(printed.getvalue().count("2 steps, mean loss"), 1)
        closed = io.StringIO()
        closed.write = lambda text: closed.close() or 1 / 0
        with contextlib.redirect_stdout(closed), self.assertWarnsRegex(UserWarning, "did not take .*division by zero"):
            ringlet.train(model="tiny", max_steps=2, batch=4, output=self.folder / "closed")
        with unittest.mock.patch.dict(sys.modules, ipykernel=None), contextlib.redirect_stdout(io.StringIO()) as printed:
            ringlet.train(self.config("model = 'tiny'\nmax-steps = 2\nbatch = 4\n"), output=self.folder / "notebook")
        self.assertRegex(printed.getvalue(), r"(?s)no --data.*\nstep 1/2.*\rstep 2/2.*\n2 steps, mean loss .*; wrote ")


class Documentation(Scratch):
    def test_the_examples_run(self):
        (self.folder / "path/to").mkdir(parents=True)
        (self.folder / "path/to/mpnet-base").symlink_to(MODEL)
        rows = "".join(f"A dog runs {n} times.,A cat sleeps.,{n % 6}\n" for n in range(64))
        for name in "stsb-train.csv", "stsb-dev.csv":
            (self.folder / name).write_text(rows)
        examples = [text for _, language, text in blocks(ROOT / "docs/python.md") if language == "python"]
        self.assertEqual(len(examples), 4)
        for code in examples:
            run = subprocess.run([sys.executable, "-c", code], cwd=self.folder, text=True, capture_output=True)
            self.assertEqual(run.returncode, 0, code + run.stderr)

    def test_stubs_and_docstrings_name_what_the_package_has(self):
        stub = ast.parse((ROOT / "train/python/ringlet/_ringlet.pyi").read_text())
        module, found = ringlet._ringlet, set()
        for node in stub.body:
            for name in [node.name] if hasattr(node, "name") else [node.target.id] if hasattr(node, "target") else []:
                found.add(name)
                for member in getattr(node, "body", []) if isinstance(node, ast.ClassDef) else []:
                    member = getattr(member, "name", None) or getattr(getattr(member, "target", None), "id", "__init__")
                    self.assertTrue(hasattr(getattr(module, name), member), f"{name}.{member}")
        self.assertEqual(found - {"__version__"}, {name for name in vars(module) if not name.startswith("_")})
        for name in set(ringlet.__all__) - {"__version__", "Error", "InputError"}:
            self.assertTrue(getattr(ringlet, name).__doc__, name)

    def test_the_program_comes_with_the_package(self):
        run = subprocess.run([sys.executable, "-m", "ringlet", "--version"], text=True, capture_output=True)
        self.assertEqual(run.stdout, f"ringlet {ringlet.__version__}\n", run.stderr)


class Hub(Scratch):
    def test_a_name_is_looked_for_in_the_cache_then_fetched(self):
        with unittest.mock.patch.dict(os.environ, HF_HOME=str(self.folder), SENTENCE_TRANSFORMERS_HOME=""):
            with unittest.mock.patch.dict(sys.modules, huggingface_hub=None):
                with self.assertRaisesRegex(ringlet.InputError, "^nobody/nothing: no such folder.*pip install huggingface_hub"):
                    ringlet.SentenceEncoder("nobody/nothing")
            fetched = []

            def snapshot_download(repository, ignore_patterns):
                fetched.append(repository)
                if repository == "nobody/nothing":
                    raise OSError("no such\nrepository")
                return str(MODEL)

            fake = types.SimpleNamespace(snapshot_download=snapshot_download)
            with unittest.mock.patch.dict(sys.modules, huggingface_hub=fake):
                expected = ringlet.SentenceEncoder(MODEL).encode(TEXTS).tobytes()
                self.assertEqual(ringlet.SentenceEncoder("some-model").encode(TEXTS).tobytes(), expected)
                with self.assertRaisesRegex(ringlet.InputError, "cannot fetch nobody/nothing: no such repository"):
                    ringlet.SentenceEncoder("nobody/nothing")
                cached = self.folder / "hub/models--a--b"
                (cached / "refs").mkdir(parents=True)
                (cached / "refs/main").write_text("abc")
                (cached / "snapshots").mkdir()
                (cached / "snapshots/abc").symlink_to(MODEL)
                self.assertEqual(ringlet.SentenceEncoder("a/b").encode(TEXTS).tobytes(), expected)
            self.assertEqual(fetched, ["sentence-transformers/some-model", "nobody/nothing"])


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
        with self.assertRaisesRegex(TypeError, "^from_dlpack: expected a tensor with __dlpack__, found int"):
            ringlet.from_dlpack(5)
        with self.assertRaisesRegex(TypeError, "^encode: expected texts, found int"):
            ringlet.SentenceEncoder(MODEL).encode(5)
        with self.assertRaisesRegex(TypeError, "^encode: expected texts, found bytes$"):
            ringlet.SentenceEncoder(MODEL).encode(b"a dog")
        encoder, half = ringlet.SentenceEncoder(MODEL), "a \ud800"
        for call, what in [(lambda: encoder.encode(["a", half]), "encode: the text at index 1"),
                           (lambda: encoder.encode(half), "encode: the text at index 0"),
                           (lambda: encoder.encode("a", prompt=half), "prompt"),
                           (lambda: encoder.tokenize(["a", half]), "tokenizer: the text at index 1"),
                           (lambda: encoder.tokenizer(half), "tokenizer: the text at index 0"),
                           (lambda: encoder.tokenizer.encode(half), "tokenizer: the text at index 0"),
                           (lambda: ringlet.train(model="tiny", prompt=half), "prompt")]:
            with self.assertRaisesRegex(ringlet.InputError, rf"^{what} has half of a surrogate pair, '\\ud800', at 2$"):
                call()
        with self.assertRaisesRegex(TypeError, "batch and per_device_train_batch_size are the same option; give one"):
            ringlet.train(batch=8, per_device_train_batch_size=4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
