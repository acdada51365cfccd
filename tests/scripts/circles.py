"""Includes point to lower folders and make no circle: a header and its source are one unit, and a unit never includes itself through others."""
import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["core", "cuda", "autograd", "comm", "nn", "models", "train", "bench"]
SOURCES = {".h", ".cuh", ".cpp", ".cu"}
CORE = {"core/base", "core/device", "core/tensor", "core/ops", "core/io", "core/threads"}
# The folders that a folder may include, with those below.
LOWER = {
    "core/base": set(), "core/device": {"core/base"}, "core/threads": {"core/base", "core/device"},
    "core/tensor": {"core/base", "core/device"}, "core/ops": {"core/base", "core/device", "core/tensor"},
    "core/io": {"core/base", "core/device", "core/tensor"}, "core/cpu": CORE - {"core/io"},
    "autograd": CORE, "cuda": CORE, "comm": CORE | {"core/cpu", "cuda"}, "nn": CORE | {"autograd", "comm"},
    "models": CORE | {"autograd", "comm", "nn"}}
BELOW_TRAIN = CORE | {"core/cpu", "autograd", "cuda", "comm", "nn", "models"}
ROOMS = ["data", "report", "evaluators", "optimizer", "parallel", "parallel/model", "step", "checkpoint"]  # from the ground
for i, room in enumerate(ROOMS):
    LOWER["train/" + room] = BELOW_TRAIN | {"train/" + below for below in ROOMS[:i]}
LOWER["train/parallel"] = CORE | {"autograd", "nn", "comm"}  # knows neither models nor the trainer
LOWER["train"] = BELOW_TRAIN | {"train/" + room for room in ROOMS}
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.M)


def include_graph(root):
    """Unit ("core/tensor") -> the units that its files include, each with the file that does."""
    files = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.suffix in SOURCES]
    units = {path: str(path.relative_to(root).with_suffix("")) for path in files}
    graph = {unit: {} for unit in units.values()}
    for path, unit in units.items():
        for name in INCLUDE.findall(path.read_text()):
            for target in (root / name.removeprefix("ringlet/"), path.parent / name):
                if target in units and units[target] != unit:
                    graph[unit].setdefault(units[target], path.relative_to(root))
    return graph


def folder_of(unit):
    return max((folder for folder in LOWER if unit.startswith(folder + "/")), key=len, default=None)


def find_upward(graph):
    """The lines "FILE includes UNIT" of which the unit lies in a folder above."""
    return [f"{file} includes {other}" for unit, others in graph.items() for other, file in others.items()
            if folder_of(unit) and folder_of(unit) != folder_of(other)
            and folder_of(other) not in LOWER[folder_of(unit)]]


def find_circles(graph):
    """The strongly connected components of several units, each as the lines "FILE includes UNIT" within it."""
    index, low, stack, found = {}, {}, [], []

    def visit(unit):
        index[unit] = low[unit] = len(index)
        stack.append(unit)
        for other in graph[unit]:
            if other not in index:
                visit(other)
            if other in stack:
                low[unit] = min(low[unit], low[other])
        if low[unit] == index[unit]:
            component = stack[stack.index(unit):]
            del stack[stack.index(unit):]
            if len(component) > 1:
                found.append(sorted(f"{file} includes {other}" for one in component
                                    for other, file in graph[one].items() if other in component))

    for unit in graph:
        if unit not in index:
            visit(unit)
    return sorted(found)


class Circles(unittest.TestCase):
    def test_the_product_has_none(self):
        graph = include_graph(ROOT)
        self.assertIn("core/tensor/tensor", graph["core/ops/elementwise"])
        circles = find_circles(graph)
        if circles:
            self.fail("\n\n" + "\n\n".join("\n".join(circle) for circle in circles))

    def test_folders_include_lower_ones(self):
        self.assertEqual(find_upward(include_graph(ROOT)), [])
        self.assertEqual(find_upward({"nn/a": {"models/b": "nn/a.h"}, "models/b": {"nn/a": "models/b.h"}}),
                         ["nn/a.h includes models/b"])

    def test_a_circle_through_a_source_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            texts = {"core/a.h": '#include "ringlet/core/b.h"\n', "core/b.h": "", "core/c.h": "",
                     "core/b.cpp": '#include "ringlet/core/b.h"\n#include "c.h"\n',
                     "core/c.cpp": "#include <ringlet/core/a.h>\n",
                     "core/b_part.cpp": '#include "ringlet/train/d.h"\n',
                     "train/d.h": '#include "ringlet/core/a.h"\n'}
            for name, text in texts.items():
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_text(text)
            self.assertEqual(find_circles(include_graph(root)),
                             [["core/a.h includes core/b", "core/b.cpp includes core/c", "core/c.cpp includes core/a"]])


if __name__ == "__main__":
    unittest.main()
