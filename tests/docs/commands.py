#!/usr/bin/env python3
"""Runs the shell blocks of README.md and docs/*.md in a scratch checkout: commands.py BUILD [--emulated].

--emulated runs those for a GPU, on the emulated one, and without it all others.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from blocks import blocks

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOR_A_GPU = re.compile(r"--device cuda|_emulated |/emulated_")
# Commands that do not run here, and the reason.
SKIPPED = {
    "apt-get install": "installs packages of the system",
    "pip install .": "builds all anew; tests/python/wheel.sh does it",
    "meson setup": "this build was made by it",
    "scripts/test.sh": "runs this test",
    "scripts/bench.sh": "tests/scripts/bench.py runs it with fewer steps",
    "scripts/course.sh": "tests/scripts/course.py runs it",
    "scripts/gpu_check.sh": "needs a GPU",
    "build/bench/tune_products": "the emulated tune_products' test runs it",
    "build/tests/core/core_tests --device cuda": "emulated runs have a suite for each program",
    "build/tests/emulated/emulated_kernels": "the emulated counters' test runs it",
    "scripts/emulated_counters.py": "the emulated counters' test runs it",
}
# Shorter runs of the same commands, and addresses of this host.
CHANGES = [
    (r"train --model tiny --output", "train --model tiny --max-steps 20 --output"),
    (r"train --model tiny --eval-steps 20 ", "train --model tiny --eval-steps 20 --max-steps 60 "),
    (r"--max-steps 100 --output out/elastic", "--max-steps 10 --output out/elastic"),
    (r"--data mined.jsonl", "--data mined.jsonl --batch 8"),
    (r"drill --trials 10", "drill --trials 1"),
    (r"drill --seconds 600", "drill --seconds 2"),
    (r"gpu01", "127.0.0.1"),
    (r"(.* --nnodes 2 .*)", lambda match: f"({match[1].replace('--node-rank 0', '--node-rank 1')}) & {match[1]}; wait $!"),
    (r"build/train/ringlet (.*--device cuda)", r"build/tests/emulated/emulated_ringlet \1"),
]


def commands(text):
    """The block's commands: a continued line is one, a comment belongs to none."""
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [line for line in (re.sub(r"(^|\s)#.*", "", line).strip() for line in lines) if line]


def shell(command):
    for pattern, replacement in CHANGES:
        command = re.sub(pattern, replacement, command)
    return command


def shell_blocks():
    """(page, line, text) of each."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        yield from ((page, line, text) for line, language, text in blocks(page) if language == "sh")


def stale():
    """Entries of the tables that fit no command any more."""
    written = [command for _, _, text in shell_blocks() for command in commands(text)]
    return ([start for start in SKIPPED if not any(command.startswith(start) for command in written)] +
            [pattern for pattern, _ in CHANGES if not any(re.search(pattern, command) for command in written)])


def write_data(scratch):
    """Files under the names that the docs use, in the published formats."""
    things = ["dog", "child", "cook", "singer", "rider"]
    rows = [(f"A {things[n % 5]} is outside.", f"A {things[n // 5 % 5]} sleeps.", n) for n in range(300)]
    labels = "entailment", "neutral", "contradiction"
    for name in "snli_1.0_train.jsonl", "snli.jsonl":
        (scratch / name).write_text("".join(json.dumps(
            {"sentence1": a, "sentence2": b, "gold_label": labels[n % 3]}) + "\n" for a, b, n in rows))
    (scratch / "pairs.csv").write_text("sentence1,sentence2,label\n" + "".join(
        f"{a},{b},{n % 2}\n" for a, b, n in rows[:100]))
    (scratch / "queries.txt").write_text("A dog sleeps.\nA cook is outside.\n")
    (scratch / "questions.csv").write_text("anchor,positive\n" + "".join(
        f"{a} {n},{b} {n}\n" for a, b, n in rows[:60]))
    (scratch / "scifact" / "qrels").mkdir(parents=True)
    for name, column in ("corpus", 0), ("queries", 1):
        (scratch / "scifact" / f"{name}.jsonl").write_text("".join(
            json.dumps({"_id": str(n), "title": "", "text": row[column]}) + "\n" for n, row in enumerate(rows[:25])))
    (scratch / "scifact" / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(
        f"{n}\t{n}\t1\n" for n in range(25)))
    for name in "stsb-train.csv", "stsb-dev.csv":
        (scratch / name).write_text("".join(f"{a},{b},{n % 6}.0\n" for a, b, n in rows[:100]))


def main():
    build, emulated = pathlib.Path(sys.argv[1]).resolve(), "--emulated" in sys.argv
    failed = ran = 0
    if unused := stale():
        sys.exit(f"commands.py: no command of the docs fits {unused}")
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        for name, target in {"build": build, "scripts": ROOT / "scripts",
                             "lab": build / "tests" / ("emulated/lab_emulated" if emulated else "docs/lab"),
                             "FOLDER": "out/tiny/model", "path/to/mpnet-base": "../../out/tiny/model"}.items():
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            (scratch / name).symlink_to(target)
        write_data(scratch)

        def run(where, script):
            nonlocal failed, ran
            ran += 1
            result = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=scratch, text=True, timeout=300,
                                    env=os.environ | {"HOME": folder}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            failed += result.returncode != 0
            print(f"{where}: {'ok' if result.returncode == 0 else 'FAILED'}")
            if result.returncode != 0:
                print(script, result.stdout, sep="\n")

        if emulated:  # the model that README's first block leaves
            run("the model", "build/train/ringlet train --model tiny --max-steps 20 --output out/tiny")
        for page, line, text in shell_blocks():
            wanted = [c for c in commands(text) if not any(c.startswith(s) for s in SKIPPED)]
            wanted = [c for c in wanted if bool(FOR_A_GPU.search(c)) == emulated]
            if wanted:
                run(f"{page.relative_to(ROOT)}:{line}", "\n".join(shell(c) for c in wanted))
        if not emulated:
            run("fragments of C++", "./build/tests/docs/fragments && [ -e head.safetensors ]")
        run("README.md, its program", "./lab | tee lab.log; grep -q '^spearman ' lab.log; [ -e output/modules.json ]")
    print(f"{ran - failed} of {ran} blocks ran")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
