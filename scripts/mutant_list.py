"""The mutants of cuda/, comm/ and autograd/: each lacks a barrier, release, acquire, bounds test, wait or gated call."""

import dataclasses
import glob
import hashlib
import re

DEVICE_FILES = ("cuda/*.cu", "cuda/*.cuh", "cuda/*.h")
# A comparison with a name of a size: `column + i < args.columns`, `m >= p.rows()`.
SIZES = "n|m|rows|columns|most|end|limit|width|length|attended|inner|a_size|b_size|in_n|out_n|height|out_height|out_width"
BOUND = rf"(?:[\w.\->()\[\]+*/ ]*?)(?:<|>=)\s*(?:[\w.]*(?:\b|_|\.)(?:{SIZES})(?:\(\))?)"
# kind: files, then pairs of a pattern and its replacement. Each match is a mutant.
KINDS = {
    "block barrier": (DEVICE_FILES, [
        (r"__syncthreads\(\);", ";"),
        (r"__syncthreads_and\(", "static_cast<bool>("),
    ]),
    "copy wait": (DEVICE_FILES, [(r"wait_for_copies<\d>\(\);", ";")]),
    "warp barrier": (DEVICE_FILES, [(r"\bwarp\.sync\(\);|__syncwarp\(\);", ";")]),
    "release": (DEVICE_FILES, [(r"st\.release\.(gpu|sys)", r"st.relaxed.\1"), (r"signals_\.raise\([^;]*\);", ";")]),
    "acquire": (DEVICE_FILES, [
        (r"ld\.acquire\.(gpu|sys)", r"ld.relaxed.\1"),
        (r"!signals_\.wait\((?:[^()]|\([^()]*\))*\)", "false"),
    ]),
    "scope": (("cuda/all_reduce*",), [(r"(st\.release|ld\.acquire)\.sys", r"\1.gpu")]),
    "bounds test": (DEVICE_FILES, [
        (rf"(?<=if \(){BOUND}(?=[)&| ])(?=[^;{{]*\) (?:return|continue|break))", "false"),
        (rf"(?<=if \(){BOUND}(?=\)| &&| \|\|)(?![^;{{]*\) (?:return|continue|break))", "true"),
        (rf"(?<=&& ){BOUND}(?=\)| &&| \?)", "true"),
        (rf"(?<=\|\| ){BOUND}(?=\)| \|\|)(?=[^;{{]*\) (?:return|continue|break))", "false"),
        (rf"(?<== ){BOUND}(?= \? )", "true"),
        (rf"(?<=, ){BOUND}(?= \? )", "true"),
    ]),
    "launch gate": (("cuda/*.cpp",), [
        (r"const LaunchGate::Call \w+;", ";"),
        (r"loads\.emplace\(\);", "loads.reset();"),
        (r"call\.emplace\(\);", "call.reset();"),
    ]),
    "event wait": (("autograd/*.cpp", "cuda/*.cpp", "comm/*.cpp", "comm/*/*.cpp", "comm/*/*.h"), [
        (r"(?<=[ :])(?:SideBranch::)?join_current\(\);", ";"),
        (r"[\w.\->()\[\]]*(?:\.|->)make_wait\([^;]*\);", ";"),
        (r"(?<!::)\b[\w\->.]+(?:\.|->)synchronize\(\);", ";"),
        (r"(?:RINGLET_CUDA\()?cuda(?:Event|Stream)Synchronize\([^;]*;", ";"),
    ]),
}


@dataclasses.dataclass(frozen=True)
class Mutant:
    kind: str
    path: str
    line: int
    text: str  # of the line
    begin: int
    end: int
    replacement: str
    order: int  # among equal lines of the file

    @property
    def key(self):
        """Stays the same while other lines change."""
        return f"{self.kind}|{self.path}|{self.text}|{self.order}"

    def apply(self, source):
        return source[:self.begin] + self.replacement + source[self.end:]

    @property
    def name(self):
        return hashlib.sha1(self.key.encode()).hexdigest()[:10]


def balanced(source, begin, end):
    """Where the comparison begins behind parentheses that it does not close."""
    while source.count("(", begin, end) > source.count(")", begin, end):
        begin = source.index("(", begin) + 1
    return begin


def in_comment(source, at):
    begin = source.rfind("\n", 0, at) + 1
    return "//" in source[begin:at]


def mutants_of(root, path, kind, patterns):
    with open(f"{root}/{path}", encoding="utf8") as file:
        source = file.read()
    seen, found = {}, []
    matches = sorted(((m.start(), m.end(), m.expand(replacement)) for pattern, replacement in patterns
                      for m in re.finditer(pattern, source)))
    last = -1
    for begin, end, replacement in matches:
        if kind == "bounds test":
            begin = balanced(source, begin, end)
        if begin < last or in_comment(source, begin):
            continue
        last = end
        line = source.count("\n", 0, begin) + 1
        text = source.splitlines()[line - 1].strip()
        seen[text] = seen.get(text, -1) + 1
        found.append(Mutant(kind, path, line, text, begin, end, replacement, seen[text]))
    return found


def all_mutants(root):
    found = []
    for kind, (folders, patterns) in KINDS.items():
        for folder in folders:
            for path in sorted(glob.glob(folder, root_dir=root)):
                found += mutants_of(root, path, kind, patterns)
    return found
