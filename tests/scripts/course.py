"""scripts/course.sh on the build folder that BUILD names."""
import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def course(*arguments):
    return subprocess.run([ROOT / "scripts/course.sh", *arguments], text=True, capture_output=True, check=False)


class Course(unittest.TestCase):
    def test_a_lesson_is_printed_built_and_run(self):
        done = course("02", "--duration")
        self.assertEqual(done.returncode, 0, done.stderr)
        source = (ROOT / "tests/tutorial/02_gradient.cpp").read_text()
        self.assertTrue(done.stdout.startswith(source))
        ran = done.stdout[len(source):]
        self.assertRegex(ran, r"digraph \{\n")
        self.assertRegex(ran, r"s: 02 gradient")  # --duration reaches the program
        self.assertRegex(ran, r"test cases: +1 \|")

    def test_another_number_is_refused_with_the_lessons(self):
        for wrong in (["99"], ["7"], ["*"], []):
            done = course(*wrong)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, r"^course.sh: expected a lesson's number, found .*07_ring\.cpp.*\n$")


if __name__ == "__main__":
    unittest.main()
