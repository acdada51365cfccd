#!/usr/bin/env python3
"""Checks the prose of comments, test names and Markdown files: sentences of at most 25 words, plain openings, the
field's terms.

    scripts/prose.py [PATH...]    prints each finding as file:line: finding; exit code 1 with any
"""
import pathlib
import re
import subprocess
import sys

MOST_WORDS = 25
OPENINGS = re.compile(r"^(What|Who|Whose|Whom|That of|Those that|Those of|Of)\b")
WORDS = re.compile(
    r"\b(nobody|somebody|everybody|strangers?|runs? behind|ran behind|fall(?:s|en)? away|fell away|"
    r"goes on meanwhile|under way|let go of|lets go of|given back|is given to|are given to|was given to|"
    r"all others|as ever|buried|bury|end to end|one after the other|"
    r"who|whose|whom|whoever|the how manieth)\b", re.IGNORECASE)
ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|al|Eq|Fig|No|approx)\.$")
SOURCES = {".h", ".cpp", ".cu", ".cuh"}
SCRIPTS = {".py", ".sh", ".build"}


def source_blocks(text):
    """(line, text) of every run of // comments; indented code in a comment ends its paragraph."""
    block, start, indent = [], 0, 0
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r"(.*?)///?(?:!|<)?( ?)(.*)$", line)
        quoted = found and found[1].count('"') % 2 == 1
        if found and not quoted and not found[1].rstrip().endswith(":"):
            alone = found[1].strip() == ""
            body = found[3]
            code = body.startswith("  ") or re.match(r"[-=~*#]{3,}", body)
            if block and (not alone or code or len(found[1]) != indent or not body.strip()):
                yield start, " ".join(block)
                block = []
            if body.strip() and not code:
                if not block:
                    start, indent = number, len(found[1])
                block.append(body.strip())
            if not alone and block:
                yield start, " ".join(block)
                block = []
        elif block:
            yield start, " ".join(block)
            block = []
    if block:
        yield start, " ".join(block)


def test_names(text):
    for found in re.finditer(r'TEST_CASE(?:_FIXTURE)?\((?:\w+,)?\s*((?:"[^"\n]*"\s*)+)', text):
        name = "".join(re.findall('"([^"]*)"', found[1]))
        yield text.count("\n", 0, found.start()) + 1, name[0].upper() + name[1:]


def script_blocks(text):
    return source_blocks("\n".join(
        re.sub(r"^(\s*)#(?!!) ?", r"\1// ", line) if re.match(r"\s*#(?!!)", line) else ""
        for line in text.splitlines()))


def markdown_blocks(text):
    """Paragraphs and list items; no code, headings, tables or HTML."""
    block, start, fenced = [], 0, False
    for number, line in enumerate(text.splitlines() + [""], 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            line = ""
        plain = not fenced and line.strip() and not re.match(r"    |\s*(#|\||<|!\[)", line)
        item = re.match(r"\s*([-*]|\d+\.)\s+", line)
        if block and (not plain or item):
            yield start, " ".join(block)
            block = []
        if plain:
            if not block:
                start = number
            block.append(line[item.end():] if item else line.strip())


def sentences(block):
    plain = re.sub(r"`[^`]*`", "CODE", block)
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"[\1]", plain)
    at = 0
    for end in re.finditer(r"[.!?:;](?:\)|\"|\*\*)?(?=\s+[A-Z(\[\"`*]|\s+CODE|\s*$)|;(?=\s)", plain):
        if ABBREVIATIONS.search(plain[at:end.end()]) or (end[0] == ":" and end.end() < len(plain)):
            continue
        yield plain[at:end.end()].strip()
        at = end.end()
    if plain[at:].strip():
        yield plain[at:].strip()


def findings(sentence):
    words = len(re.findall(r"[A-Za-z][\w'-]*", sentence))
    if words > MOST_WORDS:
        yield f"{words} words: {sentence[:70]}..."
    if opening := OPENINGS.match(sentence):
        yield f"begins with \"{opening[0]}\": {sentence[:70]}"
    for word in WORDS.finditer(sentence):
        yield f"\"{word[0]}\": {sentence[max(0, word.start() - 30):word.end() + 30]}"


def blocks_of(path):
    text = path.read_text(errors="replace")
    if path.suffix in SOURCES:
        return [*source_blocks(text), *test_names(text)]
    return markdown_blocks(text) if path.suffix == ".md" else script_blocks(text)


def files(paths):
    listed = subprocess.run(["git", "ls-files", "--", *paths], check=True, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        if pathlib.Path(name).suffix in SOURCES | SCRIPTS | {".md"}:
            yield pathlib.Path(name)


def main(paths):
    found = [f"{path}:{line}: {finding}" for path in files(paths) for line, block in blocks_of(path)
             for sentence in sentences(block) for finding in findings(sentence)]
    print("".join(line + "\n" for line in found), end="")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
