"""train(): the command `ringlet train` with its options, or Hugging Face's names of them, as keywords."""
import codecs
import contextlib
import difflib
import json
import os
import pathlib
import sys
import threading
import tty
import warnings
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Union

import numpy

from . import _ringlet, hub
from .encoder import check_unicode

_BY_OTHER_NAMES = {"batch_size": "batch", "train_dataset": "data", "eval_dataset": "eval", "max_seq_length": "max-length",
                   "model_name_or_path": "model", "warmup_ratio": "warmup", "warmup_steps": "warmup",
                   "resume_from_checkpoint": "resume"}


class TrainingResult(NamedTuple):
    folder: pathlib.Path  # of the model, for SentenceEncoder(folder); metrics.jsonl and checkpoints are next to it
    metrics: Dict[str, Optional[float]]  # the last value of each figure
    history: List[Dict[str, Optional[float]]]  # the lines of metrics.jsonl


def _options() -> Dict[str, str]:
    """The option that a keyword sets."""
    names = dict(_BY_OTHER_NAMES)
    for option, setting in _ringlet.train_options():
        names[option.replace("-", "_")] = option
        if setting:
            names[setting] = option
    return names


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_table(value: Any) -> bool:
    return hasattr(value, "keys") or hasattr(value, "column_names") or (
        isinstance(value, (list, tuple)) and len(value) > 0 and hasattr(value[0], "keys"))


def _number(value: Any) -> Any:
    """NumPy's or PyTorch's as Python's."""
    if hasattr(value, "item") and not isinstance(value, (numpy.datetime64, numpy.timedelta64)):
        with contextlib.suppress(ValueError):  # several numbers
            return value.item()
    raise TypeError(f"expected a text or a number, found {type(value).__name__}")


def _json_line(place: str, row: Any) -> str:
    try:
        return json.dumps(row, default=_number, allow_nan=False) + "\n"
    except (TypeError, ValueError):
        for column, value in dict(row).items():
            try:
                json.dumps(value, default=_number, allow_nan=False)
            except TypeError as error:
                raise TypeError(f"{place}: column {column!r}: {error}") from None
            except ValueError:
                raise ValueError(f"{place}: column {column!r}: expected a finite number, found {value}") from None
        raise


def _json_lines(name: str, table: Any) -> str:
    """Rows of a list of dicts, of columns by name, or of what names its columns as a Dataset of Hugging Face does."""
    rows = table
    if not isinstance(table, (list, tuple)):
        names = list(getattr(table, "column_names", None) or table.keys())
        columns = [list(table[name]) for name in names]
        if len({len(column) for column in columns}) > 1:
            raise ValueError("columns of different lengths: "
                             + ", ".join(f"{name} {len(column)}" for name, column in zip(names, columns)))
        rows = (dict(zip(names, values)) for values in zip(*columns))
    return "".join(_json_line(f"{name}:{i + 1}", row) for i, row in enumerate(rows))


def _words(keywords: Dict[str, Any], kept: Dict[str, str]) -> List[str]:
    """max_steps=3 is --max-steps=3; a list repeats the option. None leaves it out. Tables are kept by a name."""
    words, options = [], _options()
    given: Dict[str, str] = {}
    if {"warmup_steps", "warmup_ratio"} <= keywords.keys():  # steps count, unless they are 0
        keywords = {name: value for name, value in keywords.items()
                    if name != ("warmup_ratio" if keywords["warmup_steps"] else "warmup_steps")}
    for name, value in keywords.items():
        if name == "warmup_ratio" and value is not None and value >= 1:
            raise ValueError(f"warmup_ratio {value}: expected less than 1")
        if name == "resume_from_checkpoint" and not isinstance(value, (bool, type(None))):
            raise ValueError(f"resume_from_checkpoint {value}: expected True or False; the latest checkpoint of `output` "
                             "goes on")
        if name == "bf16" and isinstance(value, bool):
            name, value = "dtype", "bf16" if value else "f32"
        if name not in options:
            near = difflib.get_close_matches(name, options, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise TypeError(f"train() has no argument {name!r}{hint}")
        option = options[name]
        if value is not None and given.setdefault(option, name) != name:
            raise TypeError(f"train(): {given[option]} and {name} are the same option; give one")
        if option.startswith("no-") and not name.startswith("no_") and isinstance(value, bool):
            value = not value  # shuffle is --no-shuffle
        values = value if isinstance(value, (list, tuple)) and not _is_table(value) else [value]
        if option in ("data", "eval"):
            values = list(values)
            if not values:
                raise ValueError(f"{name}: empty: expected at least one row")
            for i, one in enumerate(values):
                if _is_table(one):
                    values[i] = option if len(values) == 1 else f"{option}-{i + 1}"
                    kept[values[i]] = _json_lines(values[i], one)
        texts = [_text(one) for one in values if one is not None]
        for text in texts:
            check_unicode(text, name)
        words += [f"--{option}={text}" for text in texts]
    return words


def _is_standard_output(stream: Any) -> bool:
    try:
        return bool(stream.fileno() == 1)
    except (AttributeError, OSError, ValueError):
        return False


@contextlib.contextmanager
def _descriptor_of_prints() -> Iterator[int]:
    """Where C++ prints to: -1, its standard output, or a descriptor whose bytes go to sys.stdout, as in a notebook."""
    sys.stdout.flush()
    if _is_standard_output(sys.stdout):
        yield -1
        return
    # A line of progress is rewritten on a terminal and in a notebook.
    rewrites = sys.stdout.isatty() or "ipykernel" in sys.modules
    reading, writing = os.openpty() if rewrites else os.pipe()
    if rewrites:
        tty.setraw(writing)
    out, decoder = sys.stdout, codecs.getincrementaldecoder("utf-8")("replace")
    lost: List[Exception] = []

    def copy() -> None:
        with contextlib.suppress(OSError):  # the terminal's other end was closed
            while received := os.read(reading, 1 << 16):
                try:
                    if not lost:
                        out.write(decoder.decode(received))
                        out.flush()
                except Exception as error:  # a stream that was closed; the training goes on
                    lost.append(error)
        os.close(reading)

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    try:
        yield writing
    finally:
        os.close(writing)
        thread.join()
    if lost:
        warnings.warn(f"sys.stdout did not take what train() printed: {lost[0]}", stacklevel=4)


def train(config: Union[str, "os.PathLike[str]", None] = None, **options: Any) -> TrainingResult:
    """Trains as `ringlet train` does: train(model="minilm-l6", data="pairs.csv", learning_rate=2e-5).

    Keywords are the command line's options, max_steps for --max-steps, or their names in Hugging Face's
    TrainingArguments; a list repeats the option. Data may also be a list of dicts, a dict of columns, or a Dataset of
    Hugging Face; its columns have the names that a file would have. They count before those of the file `config`. A model's name with a
    slash that is no folder is one at Hugging Face. Ctrl-C saves a checkpoint, then raises KeyboardInterrupt;
    resume=True goes on.
    """
    kept: Dict[str, str] = {}  # texts of files that are in memory
    words = _words({"config": config, **options}, kept)
    for i, word in enumerate(words):
        if word.startswith("--model=") and "/" in word:
            words[i] = "--model=" + hub.folder(word[len("--model="):])
    with _descriptor_of_prints() as prints:
        output = pathlib.Path(_ringlet.train(words, kept, prints))
    history = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return TrainingResult(output / "model", {name: value for line in history for name, value in line.items()}, history)
