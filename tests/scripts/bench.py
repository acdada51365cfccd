"""What scripts/bench.sh runs, in a copy of its folder where every program but bash is made up."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


def make_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/bash\n" + text)
    path.chmod(0o755)


def bench(*options):
    """(the arguments of throughput, those of compare_strategies.py, stderr)"""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "scripts").mkdir()
        for name in ("bench.sh", "setup.sh"):
            shutil.copy(SCRIPTS / name, root / "scripts" / name)
        for name in ("meson", "ninja"):
            make_program(root / "bin" / name, "")
        make_program(root / "bin/dpkg-query", "echo installed")
        make_program(root / "build/bench/throughput", 'printf "%s\\n" "$@" >throughput.txt')
        make_program(root / "python", '[ "$1" = -c ] || printf "%s\\n" "${@:2}" >peers.txt')
        environment = {**os.environ, "PATH": f"{root / 'bin'}:{os.environ['PATH']}", "PYTHON": str(root / "python")}
        done = subprocess.run(["bash", str(root / "scripts/bench.sh"), *options], env=environment, text=True,
                              capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        ran = [root / name for name in ("throughput.txt", "peers.txt")]
        ours, peers = (path.read_text().splitlines() if path.exists() else None for path in ran)
        return ours, peers, done.stderr


def value_of(arguments, option):
    return arguments[arguments.index(option) + 1] if option in arguments else None


class Forwarded(unittest.TestCase):
    def test_what_changes_a_step_of_ours_reaches_both_tables(self):
        options = {"--transport": "gloo", "--algorithm": "ring", "--step-graphs": "off", "--model": "tiny",
                   "--dtype": "bf16", "--batch": "4", "--rounds": "7", "--steps": "9", "--warmup": "2"}
        for joined in (False, True):
            given = [f"{name}={value}" if joined else [name, value] for name, value in options.items()]
            ours, peers, _ = bench("--peers", *(given if joined else sum(given, [])))
            for name, value in options.items():
                self.assertEqual(value_of(peers, name), value)
                self.assertIn(f"{name}={value}" if joined else name, ours)

    def test_what_is_not_said_is_the_default_of_either(self):
        _, peers, _ = bench("--peers")
        for name in ("--transport", "--algorithm", "--step-graphs", "--steps"):
            self.assertNotIn(name, peers)

    def test_without_peers_none_run(self):
        ours, peers, _ = bench("--transport", "gloo")
        self.assertEqual(value_of(ours, "--transport"), "gloo")
        self.assertIsNone(peers)

    def test_what_the_peers_cannot_follow_is_said(self):
        _, peers, errors = bench("--peers", "--padded", "--histogram=lengths.json")
        self.assertIsNotNone(peers)
        self.assertIn("the peers' table is without --histogram, --padded\n", errors)


if __name__ == "__main__":
    unittest.main()
