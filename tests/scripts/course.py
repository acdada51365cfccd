"""scripts/course.sh on the build folder that BUILD names."""
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def course(*arguments):
    return subprocess.run([ROOT / "scripts/course.sh", *arguments], text=True, capture_output=True, check=False)


class Course(unittest.TestCase):
    def test_a_lesson_is_printed_built_and_run(self):
        done = course("02", "--device=cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        source = (ROOT / "tests/tutorial/02_gradient.cpp").read_text()
        page, code, ran = done.stdout.partition(source)
        self.assertEqual(code, source)
        self.assertRegex(page, r"^## 02 Gradients\n[\s\S]*\*\*Look at\*\*")
        self.assertNotIn("## 03", page)
        self.assertRegex(ran, r"digraph \{\n")
        self.assertNotIn("doctest", ran)
        self.assertNotIn("test cases", ran)
        wrong = course("02", "--device", "nowhere")  # reaches the program
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("unknown device 'nowhere'", wrong.stdout + wrong.stderr)

    def test_the_page_has_every_lesson_and_no_other_file(self):
        written = ROOT / "course/index.html"
        kept = written.read_text() if written.exists() else None
        done = course("--html")
        self.assertEqual((done.returncode, done.stdout), (0, "wrote course/index.html\n"), done.stderr)
        page = written.read_text()
        if kept:
            written.write_text(kept)
        else:
            written.unlink()
        for path in (ROOT / "tests/tutorial").glob("[0-9][0-9]_*"):
            self.assertIn(f'<section id="{path.name[:2]}">', page)
        self.assertIn("dy/dx = 7", page)  # an output
        self.assertEqual(page.count("<figure>"), 4)
        self.assertEqual(page.count("as rank 0 executes it"), 4)
        self.assertEqual(set(re.findall(r'href="((?!#|https?:)[^"]*)"|src="([^"]*)"', page)), set())

    def test_another_number_is_refused_with_the_lessons(self):
        for wrong in (["99"], ["0"], ["123"], ["*"], []):
            done = course(*wrong)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, r"^course.sh: expected a lesson's number, found .*09_ring\.cpp.*\n$")

    def test_an_argument_that_no_program_takes_is_refused(self):
        for wrong in (["09", "--start", "x"], ["09", "--check", "x"], ["09", "--solution", "x"], ["--html", "x"]):
            done = course(*wrong)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f"course.sh: expected no argument after {wrong[-2]}, found 'x'\n")
        for wrong in ("check", "--strat", "-h"):
            done = course("09", wrong)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr,
                             f"course.sh: expected --start, --check, --solution or --device, found '{wrong}'\n")

    def test_an_exercise_is_written_checked_and_solved(self):
        mine = ROOT / "course/09.cpp"
        kept = mine.read_text() if mine.exists() else None  # a reader's own
        mine.unlink(missing_ok=True)
        try:
            self.assertRegex(course("09", "--start").stdout, r"course/09.cpp has the exercises")
            self.assertRegex(mine.read_text(), r"\n  // YOUR CODE: .*\n  return 0;")
            self.assertNotRegex(mine.read_text(), "gap:|end:|EXERCISE")
            again = course("09", "--start")
            self.assertEqual((again.returncode, again.stdout), (2, ""))
            self.assertRegex(again.stderr, r"^course.sh: course/09.cpp exists; remove it to start again\n$")
            wrong = course("09", "--check")
            self.assertEqual(wrong.returncode, 1, wrong.stderr)
            self.assertRegex(wrong.stdout, r"09.1 .*: wrong\n  .*: expected 1, found 0\n  hint: ")
            mine.write_text(course("09", "--solution").stdout)
            right = course("09", "--check")
            self.assertEqual(right.returncode, 0, right.stdout)
            self.assertEqual(right.stdout.count(": right\n"), 3)
            mine.write_text("int piece_sent(int, int, int) { return rank; }\n")
            broken = course("09", "--check")
            self.assertEqual(broken.returncode, 1)
            self.assertRegex(broken.stdout, r"course/09.cpp:1:\d+: error: .*rank.[\s\S]*does not compile")
        finally:
            mine.unlink()
            if kept:
                mine.write_text(kept)
        self.assertEqual(course("09", "--check").returncode if not kept else 2, 2)

    def test_each_lesson_has_a_page_exercises_and_gaps(self):
        numbers = [path.name[:2] for path in sorted((ROOT / "tests/tutorial").glob("[0-9][0-9]_*"))]
        pages = (ROOT / "docs/lessons.md").read_text().split("\n## ")
        self.assertEqual([page[:2] for page in pages[1:]], numbers)
        for page in pages[1:]:
            self.assertLessEqual(len(page.splitlines()), 24, page[:20])  # a screen
        for number in numbers:
            solution = course(number, "--solution").stdout
            self.assertRegex(solution, r"\n// 3\. ")
            self.assertNotRegex(solution, "gap:|end:|EXERCISE")


if __name__ == "__main__":
    unittest.main()
