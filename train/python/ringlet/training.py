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
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Union

from . import _ringlet, hub

_BY_OTHER_NAMES = {"batch_size": "batch", "train_dataset": "data", "eval_dataset": "eval", "max_seq_length": "max-length",
                   "model_name_or_path": "model", "warmup_ratio": "warmup", "warmup_steps": "warmup",
                   "resume_from_checkpoint": "resume"}


class TrainingResult(NamedTuple):
    folder: pathlib.Path  # of the model, for SentenceEncoder(folder); metrics.jsonl and checkpoints are next to it
    metrics: Dict[str, Optional[float]]  # the last value of each figure
    history: List[Dict[str, Optional[float]]]  # the lines of metrics.jsonl


def _options() -> Dict[str, str]:
    """The option that a keyword sets."""
    names = dict(_BY_OTHER_NAMES, config="config")
    for option, setting in _ringlet.train_options():
        names[option.replace("-", "_")] = option
        if setting:
            names[setting] = option
    return names


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _words(keywords: Dict[str, Any]) -> List[str]:
    """max_steps=3 is --max-steps=3; a list repeats the option. None leaves it out."""
    words, options = [], _options()
    for name, value in keywords.items():
        if name == "bf16" and isinstance(value, bool):
            name, value = "dtype", "bf16" if value else "f32"
        if name not in options:
            near = difflib.get_close_matches(name, options, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise TypeError(f"train() has no argument {name!r}{hint}")
        option = options[name]
        if option.startswith("no-") and not name.startswith("no_") and isinstance(value, bool):
            value = not value  # shuffle is --no-shuffle
        values = value if isinstance(value, (list, tuple)) else [value]
        words += [f"--{option}={_text(one)}" for one in values if one is not None]
    return words


def _is_standard_output(stream: Any) -> bool:
    try:
        return bool(stream.fileno() == 1)
    except (AttributeError, OSError, ValueError):
        return False


@contextlib.contextmanager
def _printed_by_sys_stdout() -> Iterator[None]:
    """What this process and its ranks print, where sys.stdout is not its standard output: in a notebook or a test."""
    sys.stdout.flush()
    if _is_standard_output(sys.stdout):
        yield
        return
    # A line of progress is rewritten on a terminal and in a notebook.
    rewrites = sys.stdout.isatty() or "ipykernel" in sys.modules
    reading, writing = os.openpty() if rewrites else os.pipe()
    if rewrites:
        tty.setraw(writing)

    out, decoder = sys.stdout, codecs.getincrementaldecoder("utf-8")("replace")

    def copy() -> None:
        with contextlib.suppress(OSError):  # the terminal's other end was closed
            while received := os.read(reading, 1 << 16):
                out.write(decoder.decode(received))
                out.flush()
        os.close(reading)

    kept = os.dup(1), os.dup(2)
    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    os.close(writing)
    try:
        yield
    finally:
        for descriptor, former in zip((1, 2), kept):
            os.dup2(former, descriptor)
            os.close(former)
        thread.join()


def train(config: Union[str, "os.PathLike[str]", None] = None, **options: Any) -> TrainingResult:
    """Trains as `ringlet train` does: train(model="minilm-l6", data="pairs.csv", learning_rate=2e-5).

    Keywords are the command line's options, max_steps for --max-steps, or their names in Hugging Face's
    TrainingArguments; a list repeats the option. They count before those of the file `config`. A model's name with a
    slash that is no folder is one at Hugging Face. Ctrl-C saves a checkpoint, then raises KeyboardInterrupt;
    resume=True goes on.
    """
    words = _words({"config": config, **options})
    for i, word in enumerate(words):
        if word.startswith("--model=") and "/" in word:
            words[i] = "--model=" + hub.folder(word[len("--model="):])
    with _printed_by_sys_stdout():
        output = pathlib.Path(_ringlet.train(words))
    history = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return TrainingResult(output / "model", {name: value for line in history for name, value in line.items()}, history)
