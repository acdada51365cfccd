#!/usr/bin/env python3
"""A training step of mpnet-base in bf16 by the counters of all its launches, on the emulated GPU. Times are modelled.

  modelled_step.py TABLE PROGRAM [PROGRAM]    a table of 12 layers, of one build or of two beside each other
  modelled_step.py check PROGRAM              whether a step of 3 layers follows from 1 and 2, of the tests' small model

TABLE is 28.5 or 50, 32 pairs of so many tokens, or 384, 256 sequences of as many. PROGRAM is
build/tests/emulated/emulated_throughput. The emulated GPU has no room for 12 layers: each figure f follows from steps of
1 and 2 layers, f(1) + 11 (f(2) - f(1)). At 384 tokens those give the calls of each op, and AdamW and the norm. The other
figures are one layer's, on the line through 22 and 44 sequences, whose tokens are whole waves of blocks of 32 rows on the
132 multiprocessors of an H100. Their first step is counted, less what the first step of a pair has beyond its second."""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile

SIZES = {"vocab_size": 30527, "max_position_embeddings": 514, "hidden_size": 768, "intermediate_size": 3072,
         "num_attention_heads": 12, "attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1}
ORACLE = os.path.join(os.path.dirname(__file__), "../tests/oracles/mpnet")
# Expressions for the labels of ops; the first that matches counts.
GROUPS = {"products, with GELU": "matmul", "AdamW": "adamw", "gradient norm": "squared_norm|clip",
          "LayerNorm backward": "layer_norm.*backward", "LayerNorm": "layer_norm",
          "attention backward": "attention_backward", "attention": "attention",
          "GELU backward": "gelu_backward", "the others": ""}
# Where the program prints them.
COLUMNS = {"calls": 1, "launches": 2, "MB touched": 4, "M instructions": 7, "us on an H100": -2, "us on an H200": -1}
DIGITS = (0, 0, 3, 4, 2, 2)  # printed after the point
STEP = ["--dtype", "bf16", "--strategy", "none", "--steps", "1", "--rounds", "1", "--profile", "--device", "cuda"]


def write_model(folder, layers, sizes):
    """So many layers with random weights: the tensors of the tests' model in these sizes."""
    with open(f"{ORACLE}/config.json", encoding="utf8") as file:
        small = json.load(file)
    with open(f"{ORACLE}/model.safetensors", "rb") as file:
        tensors = json.loads(file.read(*struct.unpack("<Q", file.read(8))))
    large = {small[key]: size for key, size in sizes.items()}
    random = b"".join(struct.pack("<f", (word / 65536 - 0.5) / 10) for word in struct.unpack("<9973H", os.urandom(2 * 9973)))
    header, end, counts = {}, 0, []
    for name, tensor in tensors.items():
        layer = re.search(r"layer\.(\d+)", name)
        if name == "__metadata__" or (layer and int(layer[1]) >= layers):
            continue
        shape = [large.get(size, size) for size in tensor["shape"]]
        if name.startswith("encoder.relative"):
            shape[0] = 32  # buckets, as many as the small model's columns
        counts.append(4 * shape[0] * (shape[1] if len(shape) > 1 else 1))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + counts[-1]]}
        end += counts[-1]
    text = json.dumps(header).encode()
    with open(f"{folder}/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for nbytes in counts:
            file.write((random * (nbytes // len(random) + 1))[:nbytes])
    for name in ("tokenizer.json", "vocab.txt"):
        os.symlink(os.path.abspath(f"{ORACLE}/{name}"), f"{folder}/{name}")
    with open(f"{folder}/config.json", "w", encoding="utf8") as file:
        json.dump(small | sizes | {"num_hidden_layers": layers}, file)


def step(program, layers, pairs, tokens=None, warmup=1, sizes=SIZES):
    """{op: figures} of the last step; `tokens` of each sentence, None: lengths of SNLI."""
    with tempfile.TemporaryDirectory() as folder:
        write_model(folder, layers, sizes)
        arguments = ["--model", folder, "--batch", str(pairs), "--warmup", str(warmup)]
        if tokens:
            with open(f"{folder}/lengths.json", "w", encoding="utf8") as file:
                json.dump({"lengths": [[tokens, tokens, 1]]}, file)
            arguments += ["--histogram", file.name]
        done = subprocess.run([program, *arguments, *STEP], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{program} failed:\n{done.stdout}{done.stderr}")
    rows = [line.split("|")[1:-1] for line in done.stdout.split("| op |")[1].splitlines()[2:] if line.startswith("|")]
    return {row[0].strip(): [float(row[at]) for at in COLUMNS.values()] for row in rows if row[0].strip() != "all"}


def line(a, b, steps):
    """The figures `steps` steps from a to b beyond a."""
    return {op: [x + steps * (y - x) for x, y in zip(a[op], b[op])] for op in a}


def composed(program, shape):
    """{op: figures} of 12 layers."""
    pairs, tokens = {"28.5": (32, None), "50": (32, 25), "384": (1, 25)}[shape]
    one, two = (step(program, layers, pairs, tokens) for layers in (1, 2))
    whole = line(one, two, 11)
    if shape == "384":
        long = line(*(step(program, 1, pairs, 384, warmup=0) for pairs in (11, 22)), (128 - 11) / 11)
        first = step(program, 1, pairs, tokens, warmup=0)
        for op in whole.keys() - {"adamw", "squared_norm"}:
            calls = whole[op][0] / one[op][0]
            whole[op] = [calls * (x - y + z) for x, y, z in zip(long[op], first[op], one[op])]
    return whole


def grouped(ops):
    groups = {name: [0] * len(COLUMNS) for name in [*GROUPS, "all"]}
    for op, figures in ops.items():
        for name in (next(name for name, label in GROUPS.items() if re.search(label, op)), "all"):
            groups[name] = [x + y for x, y in zip(groups[name], figures)]
    return groups


def check(program):
    one, two, three = (step(program, layers, 1, 25, sizes={}) for layers in (1, 2, 3))
    # f(3) = 2 f(2) - f(1), but for (1 + 2 + 1) / 2 units of the last digit printed. AdamW is one launch for all layers:
    # its last block is partly full, and its time is not on the line.
    for op, figures in line(one, two, 2).items():
        compared = list(zip(figures, three[op], DIGITS))[:4 if op == "adamw" else None]
        if any(abs(x - y) > 2.01 * 10**-digits for x, y, digits in compared):
            sys.exit(f"{op}: {list(COLUMNS)} of 3 layers: {three[op]}, expected {figures}")


def main():
    if not 3 <= len(sys.argv) <= 4 or sys.argv[1] not in ("28.5", "50", "384", "check"):
        sys.exit(__doc__)
    if sys.argv[1] == "check":
        return check(sys.argv[2])
    builds = [grouped(composed(program, sys.argv[1])) for program in sys.argv[2:]]
    print("| op |" + "".join(f" {name}{build} |" for name in COLUMNS for build in (", before", ", after")[-len(builds):]))
    print("|---|" + "---|" * (len(COLUMNS) * len(builds)))
    for name in builds[0]:
        print(f"| {name} |" + "".join(f" {build[name][i]:,.{i // 3}f} |" for i in range(len(COLUMNS)) for build in builds))


if __name__ == "__main__":
    main()
