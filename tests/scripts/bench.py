"""What scripts/bench.sh runs, in a copy of its folder where every program but bash is made up."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS.parent / "bench/peers"))
import compare


def make_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/bash\n" + text)
    path.chmod(0o755)


def run(*options, build="build", gpus=False, clone=True, **variables):
    """(what ran, bench.sh's process, called in a folder of its own): the arguments of each program that did, and the
    files that it left there as `left`. Without `clone` the build folder is configured."""
    with tempfile.TemporaryDirectory() as folder:
        root, caller = pathlib.Path(folder).resolve() / "root", pathlib.Path(folder).resolve() / "caller"
        for made in root, caller:
            made.mkdir()
        for name in "scripts/bench.sh", "scripts/setup.sh", "bench/options.cpp", "bench/program_options.h":
            (root / name).parent.mkdir(exist_ok=True)
            shutil.copy(SCRIPTS.parent / name, root / name)
        keep = f'printf "%s\\n" "$@" >{root}/{{}}.txt\n'
        for name in ("meson", "ninja"):
            make_program(root / "bin" / name, keep.format(name))
        make_program(root / "bin/dpkg-query", "echo installed")
        if gpus:
            make_program(root / "bin/nvcc", "")
            make_program(root / "bin/nvidia-smi", 'printf "8.0\\n8.9\\n9.0\\n8.9\\n"')
        if not clone:
            (root / build).mkdir()
            (root / build / "build.ninja").touch()
        make_program(root / build / "bench/throughput", """
            name=throughput file= model=mpnet-base
            words=("$@")
            while [ $# -gt 1 ]; do
              case $1 in --json) file=$2 ;; --model) model=$2 ;; --timeline) name=timeline ;; esac
              shift
            done
            [ -n "$file$(grep timeline <<<"$name")" ] || name=preview
            printf "%s\\n" "${words[@]}" >"ROOT/$name.txt"
            echo "a row of $model"; [ -z "$file" ] || echo "${LINK:-}" >"$file"; exit "${CODE:-0}"\n""".replace(
                "ROOT", str(root)))
        for script in "predicted", "report_page":
            (root / f"bench/{script}.py").write_text(
                f"import sys; print(*sys.argv[1:], sep='\\n', file=open('{root}/{script}.txt', 'w')); print('{script}')")
        make_program(root / build / "train/cli/ringlet",  # the program begins at its fourth word
                     keep.format("ringlet") + 'set -o pipefail; "${@:4}" | sed "s/^/[0] /"')
        make_program(root / "python", '[ "$1" = -c ] || printf "%s\\n" "${@:2}" >' + f"{root}/peers.txt")
        environment = {**os.environ, "PATH": f"{root / 'bin'}:{os.environ['PATH']}", "PYTHON": str(root / "python"),
                       "RINGLET_ISA": "", **{name: value.replace("ROOT", str(root)) for name, value in variables.items()}}
        done = subprocess.run(["bash", str(root / "scripts/bench.sh"), *options], env=environment, text=True,
                              cwd=caller, capture_output=True, check=False)
        ran = {path.stem: path.read_text().replace(str(root), "ROOT").splitlines() for path in root.glob("*.txt")}
        left = sorted(path.name for path in caller.iterdir())
        return {**ran, **({"left": left} if left else {})}, done


def bench(*options):
    """(the arguments of throughput, those of compare.py, stderr)"""
    ran, done = run(*options)
    assert done.returncode == 0, done.stderr
    return ran["throughput"], ran.get("peers"), done.stderr


class OnGpus(unittest.TestCase):
    def test_one_command_has_the_peers_and_leaves_files_to_attach(self):
        ran, done = run("--device", "cuda", "--devices", "2", gpus=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("-Dgpu_arch=80,89,90a", ran["meson"])
        self.assertEqual(value_of(ran["throughput"], "--json"), "report.json")
        theirs = compare.parse(ran["peers"])
        self.assertEqual((theirs.json, theirs.device, theirs.devices), ("report.peers.json", "cuda", 2))

    def test_peers_and_the_file_are_what_the_options_say(self):
        ran, _ = run("--device=cuda", "--no-peers", "--json", "mine.json", gpus=True)
        self.assertEqual(ran["throughput"].count("--json"), 1)
        self.assertEqual(value_of(ran["throughput"], "--json"), "mine.json")
        self.assertNotIn("peers", ran)


def value_of(arguments, option):
    return arguments[arguments.index(option) + 1] if option in arguments else None


class Forwarded(unittest.TestCase):
    def test_what_changes_a_step_of_ours_reaches_both_tables(self):
        options = {"--transport": "gloo", "--algorithm": "ring", "--step-graphs": "off", "--model": "tiny",
                   "--dtype": "bf16", "--batch": "4", "--rounds": "7", "--steps": "9", "--warmup": "2"}
        for joined in (False, True):
            given = [f"{name}={value}" if joined else [name, value] for name, value in options.items()]
            ours, peers, _ = bench("--peers", *(given if joined else sum(given, [])))
            theirs = vars(compare.parse(peers))
            for name, value in options.items():
                self.assertEqual(str(theirs[name[2:].replace("-", "_")]), value)
                self.assertIn(f"{name}={value}" if joined else name, ours)

    def test_what_is_not_said_is_the_default_of_either(self):
        _, peers, _ = bench("--peers")
        for name in ("--transport", "--algorithm", "--step-graphs", "--steps", "--threads-per-device", "--json"):
            self.assertNotIn(name, peers)

    def test_without_peers_none_run(self):
        ours, peers, _ = bench("--transport", "gloo")
        self.assertEqual(value_of(ours, "--transport"), "gloo")
        self.assertIsNone(peers)

    def test_processes_are_started_by_the_launcher_and_speak_as_one_program(self):
        ran, done = run("--processes", "--devices", "3", "--model", "tiny", "--peers")
        self.assertEqual(ran["ringlet"][:4], ["run", "--nproc-per-node", "3", "ROOT/build/bench/throughput"])
        self.assertEqual(ran["throughput"][:4], ["--devices", "3", "--model", "tiny"])
        self.assertNotIn("--processes", ran["throughput"] + ran["peers"])
        self.assertEqual(value_of(ran["peers"], "--launcher"), "ROOT/build/train/cli/ringlet")
        self.assertIn("train/cli/ringlet", ran["ninja"])
        self.assertEqual((done.stdout, done.returncode), ("a row of tiny\n", 0))
        self.assertNotIn("ringlet", run("--peers")[0])

    def test_what_the_model_says_of_the_rows_follows_the_table(self):
        for options in ([], ["--json", "mine.json"]):
            ran, done = run(*options, LINK='{"link": {}}')
            self.assertIn("a row of mpnet-base\n\npredicted\n", done.stdout)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(ran["predicted"], [value_of(ran["throughput"], "--json")])
        self.assertNotIn("predicted", run()[0])

    def test_a_preview_with_the_model_tiny_comes_first_and_prints_no_ratios(self):
        ran, done = run("--steps", "9", "--rounds=7", "--batch", "4", "--json", "mine.json", "--profile", "--wide")
        self.assertEqual(done.stdout, "a row of mpnet-base\n\nwritten: mine.json\n")
        self.assertEqual(ran["preview"], ["--batch", "4", "--wide", "--threads-per-device", "1", "--model", "tiny",
                                          "--rounds", "1", "--steps", "3", "--idle-steps", "0"])
        self.assertEqual(value_of(ran["throughput"], "--steps"), "9")
        self.assertNotIn("preview", run("--model", "tiny")[0])

    def test_files_are_relative_to_the_folder_of_the_caller_and_the_last_line_names_those_written(self):
        ran, done = run("--json", "mine.json", "--timeline", "t.svg", "--report", "page.html", "--data", "a.csv",
                        "--model", "folder", "--histogram", "h.json")
        self.assertEqual(ran["left"], ["mine.json"])  # the made-up programs write no other
        for option, file in (("--data", "a.csv"), ("--model", "folder"), ("--histogram", "h.json")):
            self.assertEqual(value_of(ran["timeline"], option), file)
        self.assertEqual(value_of(ran["report_page"], "--output"), "page.html")
        self.assertEqual(value_of(ran["report_page"], "--command"), "scripts/bench.sh --json mine.json "
                         "--timeline t.svg --report page.html --data a.csv --model folder --histogram h.json")
        self.assertEqual(done.stdout.splitlines()[-1], "written: page.html, mine.json, t.json, t.svg")
        self.assertNotIn("written", run()[1].stdout)

    def test_it_says_what_it_is_doing(self):
        _, done = run("--report", "page.html", "--peers")
        said = [line.removeprefix("bench.sh: ").split(",")[0].split()[0] for line in done.stderr.splitlines()]
        self.assertEqual(said, ["no", "CPU", "looking", "configuring", "building", "a", "the", "the", "ringlet"])

    def test_a_fresh_clone_without_a_gpu_compiles_no_kernels_for_one(self):
        for clone, gpus, there in ((True, False, True), (False, False, False), (True, True, False)):
            ran, done = run(clone=clone, gpus=gpus)
            self.assertEqual("-Dgpu_arch=" in ran["meson"], there)
            self.assertEqual("no CUDA kernels are compiled" in done.stderr, there)
            self.assertEqual("-Dgpu_arch=90a" in done.stderr, there)

    def test_a_fresh_clone_compiles_the_kernels_of_this_processor(self):
        for clone, isa, restricted in ((True, "", True), (False, "", False), (True, "avx2", False)):
            ran, done = run(clone=clone, RINGLET_ISA=isa)
            options = [one for one in ran["meson"] if one.startswith("-Disa=")]
            self.assertEqual(len(options), restricted)
            self.assertEqual("for this processor" in done.stderr, restricted)
            self.assertTrue(set(options) <= {"-Disa=avx512", "-Disa=avx2", "-Disa=portable"})

    def test_a_page_has_the_json_and_the_timeline_of_a_short_run_after_the_table(self):
        for given in (["--report", "mine.html"], ["--report=mine.html"]):
            ran, done = run(*given, "--steps", "9", "--model", "minilm-l6")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(ran["report_page"][0], value_of(ran["throughput"], "--json"))
            self.assertEqual(value_of(ran["report_page"], "--output"), "mine.html")
            self.assertEqual(value_of(ran["report_page"], "--timeline"),
                             value_of(ran["timeline"], "--timeline").replace(".json", ".svg"))
            self.assertEqual([value_of(ran["timeline"], option) for option in ("--steps", "--rounds", "--model", "--json")],
                             ["2", "1", "minilm-l6", None])
            self.assertNotIn("--report", ran["throughput"])
        self.assertNotIn("report_page", run()[0])

    def test_a_page_that_cannot_be_written_is_refused_before_the_build(self):
        for given, error in ((["--report"], "--report: expected the name of a file\n"),
                             (["--report", "/absent/a.html"],
                              "--report /absent/a.html: its folder cannot be written to\n"),
                             (["--json=absent/a.json"], "--json absent/a.json: its folder cannot be written to\n"),
                             (["--timeline", "absent/a.svg"],
                              "--timeline absent/a.svg: its folder cannot be written to\n")):
            ran, done = run(*given)
            self.assertEqual((ran, done.returncode, done.stderr), ({}, 2, error))

    def test_wrong_options_are_refused_before_the_build(self):
        for given, error in ((["--stpes", "3"], "unknown option '--stpes'; expected one of --strategy "),
                             (["--steps", "3", "cuda"], "unknown argument 'cuda'; "),
                             (["--device", "gpu"], "--device: expected cpu or cuda, perhaps with an index, found 'gpu'\n"),
                             (["--devices=two"], "--devices: expected a whole number from 1 to 1024, found 'two'\n")):
            ran, done = run(*given)
            self.assertEqual((ran, done.returncode, done.stderr[:len(error)]), ({}, 2, error))
        done = subprocess.run(["bash", str(SCRIPTS / "gpu_check.sh"), "table", "tabel"], env={**os.environ, "DRY_RUN": "1"},
                              text=True, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr[:21]), (2, "", "unknown slice tabel; "))

    def test_a_table_that_fails_fails_and_no_peers_follow(self):
        for options in ([], ["--processes"]):
            ran, done = run("--peers", *options, CODE="3")
            self.assertEqual(done.returncode, 3)
            self.assertNotIn("peers", ran)

    def test_a_build_that_is_there_is_taken_as_it_is(self):
        ran, done = run("--peers", build="other", BUILD="ROOT/other")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(ran["ninja"][:2], ["-C", "ROOT/other"])
        self.assertNotIn("meson", ran)
        self.assertEqual(value_of(ran["peers"], "--throughput"), "ROOT/other/bench/throughput")
        self.assertIn("meson", run()[0])

    def test_gpu_check_runs_it_on_one_gpu_and_with_ranks_that_share_it(self):
        done = subprocess.run(["bash", str(SCRIPTS / "gpu_check.sh"), "table"], env={**os.environ, "DRY_RUN": "1"},
                              text=True, capture_output=True, check=True)
        for devices in (1, 2):
            self.assertIn(f"scripts/bench.sh --device cuda --devices {devices} ", done.stdout)
        self.assertIn("table_2_processes: ", done.stdout)


if __name__ == "__main__":
    unittest.main()
