"""The files of tests/corridor.txt stay within its limits and are those of docs/reading.md."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Corridor(unittest.TestCase):
    def setUp(self):
        self.text = (ROOT / "tests/corridor.txt").read_text()
        self.paths = [line for line in self.text.splitlines() if not line.startswith("#")]

    def test_lines_and_files(self):
        lines, files = map(int, re.search(r"at most (\d+) lines in (\d+) files", self.text).groups())
        self.assertLessEqual(sum(len((ROOT / path).read_text().splitlines()) for path in self.paths), lines)
        self.assertLessEqual(len(self.paths), files)

    def test_reading_order(self):
        listed = re.findall(r"^\| \[[^\]]*\]\(\.\./([^)]*)\)", (ROOT / "docs/reading.md").read_text(), re.M)
        self.assertEqual(listed, self.paths)


if __name__ == "__main__":
    unittest.main()
