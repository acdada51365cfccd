"""Budgets: the files of tests/corridor.txt, which are those of docs/reading.md, and each folder of tests/budgets.txt
stay within their limits."""
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


class Budgets(unittest.TestCase):
    SOURCES = {".h", ".cpp", ".cu", ".cuh", ".inc", ".py"}
    SHORT = 25  # lines

    def test_folders(self):
        rows = [line.split() for line in (ROOT / "tests/budgets.txt").read_text().splitlines()]
        for folder, most_lines, most_short in (row for row in rows if row and row[0] not in ("#", "ringlet.h")):
            files = [path for path in (ROOT / folder).rglob("*") if path.suffix in self.SOURCES]
            lines = [len(path.read_text().splitlines()) for path in files]
            with self.subTest(folder):
                self.assertTrue(lines)
                self.assertLessEqual(sum(lines), int(most_lines), "lines")
                self.assertLessEqual(sum(length < self.SHORT for length in lines), int(most_short), "short files")


class Headers(unittest.TestCase):
    def test_of_programs(self):
        def included(path):
            return {name.removeprefix("ringlet/") for name in re.findall(r'^#include "([^"]*)"', (ROOT / path).read_text(), re.M)}

        reached, unread = set(), {"ringlet.h"}
        while unread:
            new = included(unread.pop()) - reached
            reached |= new
            unread |= new
        most, most_reached = map(int, re.search(r"^ringlet\.h (\d+) (\d+)$", (ROOT / "tests/budgets.txt").read_text(), re.M).groups())
        self.assertLessEqual(len(included("ringlet.h")), most)
        self.assertLessEqual(len(reached), most_reached)


if __name__ == "__main__":
    unittest.main()
