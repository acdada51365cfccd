"""Compiles and links mutants with the commands of a build folder."""

import glob
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess


def failed_first(code, output):
    """The reason of a failed run: a fault of the emulated GPU, an error, a test case or a signal."""
    for pattern in (r"^emulated GPU: (?!kernels run on)(.*)$", r"ERROR: (.*)$", r"^TEST CASE:\s*(.*)$"):
        found = re.search(pattern, output, re.MULTILINE)
        if found:
            return found.group(1)[:220]
    return "the time limit" if code == 124 else f"exit code {code}"


def without_lines(text):
    """PTX without source lines, debug sections and the hash of nvcc's options in names."""
    text = re.sub(r"_GLOBAL__N__[0-9a-f]{8}_", "_GLOBAL__N__", text)
    return ["".join(line.split()) for line in text.splitlines() if line.strip() and
            not line.lstrip().startswith((".loc", ".file", "//", ".section", ".b8", ".b32", ".b64"))]


def ptx_of(path):
    with open(path, "rb") as file:
        data = file.read()
    texts = re.findall(rb"\.version \d[^\0]*", data)
    return [without_lines(text.decode(errors="replace")) for text in texts]


OF_TRAIN = ("evaluators", "parallel")  # folders of tests/train with programs of their own


class Builder:
    def __init__(self, root, build, folder):
        self.root, self.build, self.folder = root, build, folder
        self.commands, self.unit_of = {}, {}

    def programs(self):
        found = sorted(name.removesuffix("_emulated") for name in os.listdir(f"{self.build}/tests/emulated")
                       if name.endswith("_emulated"))
        return [name for name in found if name not in ("cli", "bench", "mnist", "course", "lab")]

    @staticmethod
    def target(name):
        host = name.removeprefix("host:")
        return f"tests/{host}/{host}_tests" if host != name else f"tests/emulated/{name}_emulated"

    def program(self, name):
        return f"{self.build}/{self.target(name)}"

    def sources(self, program):
        if program.startswith("host:"):
            return ["nccl"]
        folder = pathlib.Path(self.root, "tests", {name: f"train/{name}" for name in OF_TRAIN}.get(program, program))
        names = sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.cpp")
                       if program != "train" or path.relative_to(folder).parts[0] not in OF_TRAIN)
        return [name for name in names if program != "cuda" or name.endswith("_device")]  # the others run on the host

    def units(self):
        """The .cu file of each kernel."""
        if not self.unit_of:
            for name in os.listdir(f"{self.build}/cuda"):
                if name.endswith(".ptx"):
                    with open(f"{self.build}/cuda/{name}", encoding="utf8") as file:
                        kernels = re.findall(r"\.entry ([\w$]+)", file.read())
                    self.unit_of.update((kernel, f"cuda/{name.removesuffix('.ptx')}.cu") for kernel in kernels)
        return self.unit_of

    def read_lines(self, report):
        """unit: lines of cuda/ that its kernels executed."""
        units = {}
        with open(report, encoding="utf8") as file:
            for kernel in map(json.loads, file):
                lines = {self.relative(place) for place, executed in kernel["lines"].items() if executed} - {None}
                if kernel["kernel"] in self.units():
                    units.setdefault(self.units()[kernel["kernel"]], set()).update(lines)
        return {unit: sorted(lines) for unit, lines in units.items()}

    @staticmethod
    def relative(place):
        """"cuda/FILE:LINE"; None outside of cuda/."""
        found = re.search(r"(?:^|/)(cuda/[^/]+:\d+)$", place)
        return found.group(1) if found and "/targets/" not in place else None

    def command(self, target, ends_with):
        if target not in self.commands:
            done = subprocess.run(["ninja", "-C", self.build, "-t", "commands", target], capture_output=True, text=True,
                                  check=True)
            self.commands[target] = [line for line in done.stdout.splitlines() if not line.startswith("ninja: ")]
        return next(line for line in reversed(self.commands[target]) if ends_with in line)

    def overlay(self, mutant):
        """An include folder whose ringlet/ differs in the mutated file alone."""
        path = f"{self.folder}/{mutant.name}/include"
        if os.path.exists(path):
            return path
        shutil.copytree(self.root, f"{path}/ringlet", copy_function=os.symlink,
                        ignore=shutil.ignore_patterns(".*", "build*"))
        with open(f"{self.root}/{mutant.path}", encoding="utf8") as file:
            source = mutant.apply(file.read())
        os.remove(f"{path}/ringlet/{mutant.path}")
        with open(f"{path}/ringlet/{mutant.path}", "w", encoding="utf8") as file:
            file.write(source)
        return path

    def unity(self, mutant, unit, source):
        """The source with the mutated .cpp file and its object: the file alone, or its unity source."""
        for path in glob.glob(f"{self.build}/libringlet.a.p/*-unity*.cpp"):
            with open(path, encoding="utf8") as file:
                text = file.read()
            mutated = re.sub(rf"(?<=#include<)[^>]*/\.\./{re.escape(unit)}(?=>)", source, text)
            if mutated != text:
                source = f"{self.folder}/{mutant.name}/{os.path.basename(path)}"
                with open(source, "w", encoding="utf8") as file:
                    file.write(mutated)
                return source, f"libringlet.a.p/meson-generated_{os.path.basename(path)}.o"
        return source, f"libringlet.a.p/{unit.replace('/', '_')}.o"

    def compile(self, mutant, unit):
        """The object's path; None if the mutant does not compile, "same" if its PTX is the original's."""
        to = f"{self.folder}/{mutant.name}/{unit.replace('/', '_')}.o"
        overlay = self.overlay(mutant)
        kernels = os.path.splitext(unit)[0] if unit.endswith(".cu") else None
        source, target = f"{overlay}/ringlet/{unit}", f"{kernels}.o"
        if not kernels:
            source, target = self.unity(mutant, unit, source)
        words = shlex.split(self.command(target if kernels else "libringlet.a", f"-o {target}"))
        compiler = next(i for i, word in enumerate(words) if os.path.basename(word) in ("nvcc", "g++", "clang++", "c++"))
        words = words[compiler:]
        for flag, count in (("-MD", 1), ("-MF", 2), ("-MQ", 2), ("-gencode", 2), ("--resource-usage", 1),
                            ("-Werror", 2 if kernels else 1)):
            while flag in words:
                at = words.index(flag)
                del words[at:at + count]
        words[words.index("-o") + 1] = to
        words[words.index("-c") + 1] = source
        words[1:1] = ["-I", overlay]
        if kernels:  # the emulator prefers the PTX in an object to the build's file
            words += ["-gencode", "arch=compute_90a,code=compute_90a", "--no-compress"]
        done = subprocess.run(words, cwd=self.build, capture_output=True, text=True)
        if done.returncode != 0:
            return None
        return "same" if kernels and ptx_of(to) == ptx_of(f"{self.build}/{kernels}.ptx") else to

    def link(self, mutant, program, unit, mutated):
        target = self.target(program)
        to = f"{self.folder}/{mutant.name}/{os.path.basename(target)}"
        words = shlex.split(self.command(target, f"-o {target}"))
        words[words.index("-o") + 1] = to
        words.insert(words.index("-o"), mutated)  # a program's symbols precede those of its shared library
        words.append(f"-Wl,-rpath,{self.build}/tests/emulated:{self.build}/scripts/package")
        subprocess.run(words, cwd=self.build, check=True, capture_output=True)
        return to

    def clean(self, mutant):
        shutil.rmtree(f"{self.folder}/{mutant.name}", ignore_errors=True)
