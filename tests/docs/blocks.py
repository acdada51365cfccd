#!/usr/bin/env python3
"""The code blocks of the docs. blocks.py FILE LANGUAGE prints the first of a language."""
import pathlib
import sys


def blocks(path):
    """(line of the fence, language, text) of each fenced block of a Markdown file."""
    found, start = [], None
    lines = pathlib.Path(path).read_text().splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        if not line.startswith("```"):
            continue
        if start is None:
            start = number, line[3:].strip()
        else:
            found.append((*start, "".join(lines[start[0]:number - 1])))
            start = None
    return found


if __name__ == "__main__":
    sys.stdout.write(next(text for _, language, text in blocks(sys.argv[1]) if language == sys.argv[2]))
