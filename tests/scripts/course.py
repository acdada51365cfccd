"""scripts/course.sh in a copy of its folder, where meson, ninja and the lessons' programs are made up."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def make_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/bash\n" + text)
    path.chmod(0o755)


def course(*arguments, configured=True):
    """(course.sh's process, the lines "PROGRAM ARGUMENTS" of what it ran)"""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in ("scripts/course.sh", "scripts/setup.sh"):
            (root / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, root / name)
        shutil.copytree(ROOT / "tests/tutorial", root / "tests/tutorial")
        log = 'echo "{} $*" >>log.txt\n'
        make_program(root / "bin/meson", log.format("meson"))
        make_program(root / "bin/ninja", f'if [ "$3" = -t ]; then {"true" if configured else "false"}; exit; fi\n'
                     + log.format("ninja"))
        make_program(root / "bin/dpkg-query", "echo installed")
        for name in ("tests/tutorial", "tests/emulated/kernel_lesson"):
            make_program(root / "build" / name, log.format(pathlib.Path(name).name))
        done = subprocess.run([root / "scripts/course.sh", *arguments], text=True, capture_output=True, check=False,
                              env={**os.environ, "PATH": f"{root / 'bin'}:{os.environ['PATH']}"})
        log = root / "log.txt"
        return done, log.read_text().splitlines() if log.exists() else []


class Course(unittest.TestCase):
    def test_a_lesson_is_printed_built_and_run(self):
        done, ran = course("07", "--device", "cpu:1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("// Lesson 7:", done.stdout)
        self.assertEqual(ran, ["ninja -C build tests/tutorial", "tutorial --test-case=07* --device cpu:1"])

    def test_lesson_12_is_a_program_of_its_own(self):
        _, ran = course("12")
        self.assertEqual(ran, ["ninja -C build tests/emulated/kernel_lesson", "kernel_lesson "])

    def test_without_a_build_there_will_be_one_with_tests(self):
        _, ran = course("01", configured=False)
        self.assertEqual(ran[0], "meson setup build -Dtests=enabled")

    def test_another_number_is_refused_with_the_lessons(self):
        for wrong in (["13"], ["7"], ["*"], []):
            done, ran = course(*wrong)
            self.assertEqual((done.returncode, ran), (2, []))
            self.assertRegex(done.stderr, r"^course.sh: expected a lesson's number, found .*07_ring\.cpp.*\n$")


if __name__ == "__main__":
    unittest.main()
