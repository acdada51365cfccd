#!/usr/bin/env python3
"""The C++ blocks of docs/ladder.md are the files that their sections link."""
import pathlib
import re
import sys

from blocks import blocks

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/ladder.md"

lines = PAGE.read_text().splitlines()
stale = []
programs = [(line, text) for line, language, text in blocks(PAGE) if language == "cpp"]
for line, text in programs:
    path = re.findall(r"\[(tests/ladder/\w+\.cpp)\]", "\n".join(lines[:line]))[-1]
    source = (ROOT / path).read_text()
    if text != source:
        stale.append(f"docs/ladder.md:{line}: differs from {path}")
    rung = pathlib.Path(path).stem
    row = re.search(rf"^\| \[{rung}\].*?\| (\d+) \|", "\n".join(lines), re.M)
    count = sum(line != "" for line in source.splitlines())
    if not row or int(row[1]) != count:
        stale.append(f"docs/ladder.md: {path} has {count} lines that are not blank")
print(*stale, sep="\n")
sys.exit(bool(stale) or len(programs) != 3)
