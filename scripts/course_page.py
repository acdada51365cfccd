#!/usr/bin/env python3
"""The course as one page without other files: text, code, output of this machine, pictures and exercises.

    scripts/course_page.py BUILD > PAGE    for scripts/course.sh --html, which builds the programs

The text is docs/course.md, docs/lessons.md and docs/ladder.md; code and exercises are the files of tests/tutorial.
"""
import html
import pathlib
import re
import subprocess
import sys
import tempfile

import exercise

ROOT = exercise.ROOT
LESSONS = sorted((ROOT / "tests/tutorial").glob("[0-9][0-9]_*.c*"))
# Lesson: the arguments of `ringlet explain` that draw it.
PICTURES = {"09": [["ring", "-n", "4"]], "11": [["ddp", "-n", "2"]], "12": [["zero1", "-n", "3"]], "14": [["fsdp", "-n", "2"]],
            "17": [["pipeline", "--stages", "4", "--schedule", kind] for kind in ("gpipe", "1f1b", "zero-bubble")],
            "18": [["tensor", "-n", "2"]], "21": [["tree", "-n", "3"]]}
AFTER_LADDER = "12"
STYLE = """
:root { color-scheme: light dark; --text: #1c1e21; --faint: #5d646c; --back: #fff; --code: #f5f6f8; --line: #dfe3e8;
  --link: #0b57a4; --comment: #4d7a3d; --string: #a04000; --word: #7b3aa8 }
@media (prefers-color-scheme: dark) { :root { --text: #e4e6e9; --faint: #9aa3ad; --back: #16181b; --code: #1f2226;
  --line: #343a41; --link: #7cb7f2; --comment: #8fbf7f; --string: #e0a070; --word: #c79be8 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1rem; max-width: 56rem; color: var(--text); background: var(--back);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word }
a { color: var(--link) }
h1, h2 { line-height: 1.2 } h2 { margin-top: 3.5rem; border-top: 1px solid var(--line); padding-top: 1.5rem }
pre, code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .82rem; background: var(--code) }
code { padding: .1em .25em; border-radius: 3px } pre code { padding: 0; font-size: inherit }
pre { overflow-x: auto; padding: .75rem; border: 1px solid var(--line); border-radius: 6px; line-height: 1.4 }
pre.output { border-left: 4px solid var(--link) }
.comment { color: var(--comment) } .string { color: var(--string) } .word { color: var(--word) }
.label { margin: 1.25rem 0 -.75rem; color: var(--faint); font-size: .85rem }
.scroll { overflow-x: auto } table { border-collapse: collapse } th, td { text-align: left; padding: .25rem .6rem;
  border-bottom: 1px solid var(--line); vertical-align: top }
nav ol { columns: 16rem; list-style: none; padding: 0 } figure { margin: 1rem 0; overflow-x: auto; background: #fff }
figure svg { max-width: 100%; height: auto } summary { cursor: pointer; color: var(--link); margin: 1rem 0 }
"""


def inline(text):
    """A line of Markdown. Links to files of the repository become their names: the page stands alone."""
    def link(found):
        lesson = re.search(r"tests/tutorial/(\d\d)_", found[2])
        target = found[2] if found[2].startswith("http") else f"#{lesson[1]}" if lesson else None
        if "ladder.md" in found[2]:
            target = "#ladder"
        return f'<a href="{target}">{found[1]}</a>' if target else found[1]
    codes = re.split(r"(`[^`]+`)", html.escape(text, quote=False))
    for i, part in enumerate(codes):
        if part.startswith("`"):
            codes[i] = f"<code>{part[1:-1]}</code>"
        else:
            codes[i] = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", part)
    return re.sub(r"\[([^\]]+)\]\(([^)]+)\)", link, "".join(codes))


def table(lines):
    rows = [[inline(cell.strip()) for cell in line.strip().strip("|").split("|")] for line in lines]
    cells = ["".join(f"<{'th' if i == 0 else 'td'}>{cell}</{'th' if i == 0 else 'td'}>" for cell in row)
             for i, row in enumerate(rows) if i != 1]
    return '<div class="scroll"><table>' + "".join(f"<tr>{row}</tr>" for row in cells) + "</table></div>"


def markdown(text, level=0):
    """Paragraphs, headings, lists, tables and blocks of code; headings are `level` deeper."""
    out, lines, i = [], text.splitlines(), 0
    while i < len(lines):
        line, begin = lines[i], i
        heading = re.match(r"(#+) (.*)", line)
        starts = ("```", "|", "- ")
        kind = next((start for start in starts if line.startswith(start)), None)
        i += 1
        if heading:
            depth = len(heading[1]) + level
            out.append(f"<h{depth}>{inline(heading[2])}</h{depth}>")
        elif kind == "```":
            while not lines[i].startswith("```"):
                i += 1
            body = "\n".join(lines[begin + 1:i])
            out.append(code(body) if line == "```cpp" else f"<pre>{html.escape(body)}</pre>")
            i += 1
        elif kind == "|":
            while i < len(lines) and lines[i].startswith("|"):
                i += 1
            out.append(table(lines[begin:i]))
        elif line:
            while i < len(lines) and lines[i] and not lines[i].startswith(starts):
                i += 1
            body = inline(" ".join(part.strip() for part in lines[begin:i]).removeprefix("- "))
            out.append(f"<ul><li>{body}</li></ul>" if kind else f"<p>{body}</p>")
    return "\n".join(out).replace("</ul>\n<ul>", "\n")


WORDS = ("auto|bool|break|case|char|class|const|constexpr|continue|do|double|else|enum|false|float|for|if|inline|int|long|"
         "namespace|return|static|std|struct|switch|template|true|try|catch|throw|using|void|while|__global__|__shared__")
TOKEN = re.compile(rf'(?P<comment>//[^\n]*)|(?P<string>"(?:\\.|[^"\\\n])*")|(?P<word>\b(?:{WORDS})\b|^ *#\w+)', re.M)


def code(text):
    out, at = "", 0
    for found in TOKEN.finditer(text):
        out += html.escape(text[at:found.start()]) + f'<span class="{found.lastgroup}">{html.escape(found[0])}</span>'
        at = found.end()
    return f"<pre><code>{out}{html.escape(text[at:])}</code></pre>"


def output(build, lesson):
    program = build / ("tests/tutorial" if lesson.suffix == ".cpp" else "tests/emulated/kernel_lessons")
    if not program.exists():
        return '<p class="label">This lesson needs a build with nvcc.</p>'
    done = subprocess.run([program, "--minimal", f"--test-case={lesson.name[:2]}*"], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(f"course.sh: {lesson.name} fails:\n{done.stdout}")
    shown = done.stdout.replace(f"{build.resolve()}/../", "").replace(f"{ROOT}/", "")
    return f'<p class="label">Its output on this machine:</p>\n<pre class="output">{html.escape(shown)}</pre>'


def pictures(build, number):
    for arguments in PICTURES.get(number, []):
        yield f'<p class="label"><code>ringlet explain {" ".join(arguments)}</code></p>'
        if arguments[0] not in ("ring", "pipeline"):  # drawn as text
            drawn = subprocess.run([build / "train/ringlet", "explain", *arguments], check=True, text=True, capture_output=True)
            yield f'<pre class="output">{html.escape(drawn.stdout[max(drawn.stdout.find("A step"), 0):])}</pre>'
            continue
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([build / "train/ringlet", "explain", *arguments, "--svg", f"{folder}/picture.svg"],
                           check=True, capture_output=True)
            drawn = pathlib.Path(folder, "picture.svg").read_text(encoding="utf8")
        yield f'<figure>{drawn[drawn.index("<svg"):]}</figure>'


def exercises(number):
    text = exercise.with_gaps(exercise.parts(number)[0]).rstrip("\n")
    return (f"<details><summary>Three exercises</summary>\n<p>To solve them: <code>scripts/course.sh {number} --start</code>"
            f", fill in the gaps of <code>course/{number}.cpp</code>, then <code>scripts/course.sh {number} --check</code>."
            f"</p>\n{code(text)}</details>")


def main():
    build = pathlib.Path(sys.argv[1])
    pages = dict(re.findall(r"^## (\d\d) (.*\n(?:(?!## ).*\n?)*)", (ROOT / "docs/lessons.md").read_text(), re.M))
    titles = {number: page.partition("\n")[0] for number, page in pages.items()}
    contents = [f'<li><a href="#{number}">{number} {inline(title)}</a></li>' for number, title in titles.items()]
    contents.insert(list(titles).index(AFTER_LADDER), '<li><a href="#ladder">The ladder</a></li>')
    body = [markdown((ROOT / "docs/course.md").read_text().partition("\n| lesson")[0]),
            f"<nav><ol>{''.join(contents)}</ol></nav>"]
    for lesson in LESSONS:
        number = lesson.name[:2]
        if number == AFTER_LADDER:
            ladder = (ROOT / "docs/ladder.md").read_text()
            body.append(f'<section id="ladder">{markdown(ladder, level=1)}</section>')
        body += [f'<section id="{number}">\n<h2>{number} {inline(titles[number])}</h2>',
                 markdown(pages[number].partition("\n")[2]), f'<p class="label">{lesson.relative_to(ROOT)}:</p>',
                 code(lesson.read_text()), output(build, lesson), *pictures(build, number), exercises(number), "</section>"]
    print(f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">\n'
          f"<title>ringlet: the course</title>\n<style>{STYLE}</style>\n<body>", *body, "</body>\n</html>", sep="\n")


if __name__ == "__main__":
    main()
