#!/usr/bin/env python3
"""Faults that would make a result depend on the number of devices: one_result_mutants.py [BUILD].

Plants each fault, compiles `ringlet` with it and trains the runs of scripts/one_result.py below, until two that must be
equal are not, or one fails. Prints a table of what caught each; exit code 1 if a fault survives."""
import argparse
import pathlib
import sys
import tempfile

from mutant_build import Builder
from mutant_list import Mutant
from one_result import Run, Training, make_data

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEXTS = 'train/data/text_batches.cpp'
# A name, the file, its text, and the text with the fault.
FAULTS = [
    ('sums in sequence, not by the tree', 'comm/logical_sum.cpp', 'additions_after(leaf, node.size())', 'leaf > 0 ? 1 : 0'),
    ('logical ranks dealt to devices in turn, not in blocks', TEXTS,
     'static_cast<std::size_t>(block.begin) + i / of_rank', 'options.rank + i / of_rank * options.world_size'),
    ("dropout by the device's row", TEXTS, 'spans(), static_cast<std::int64_t>(at)',
     'spans(), [] { thread_local std::int64_t row = 0; return row++; }()'),
    ("dropout by the batch's row", TEXTS, 'spans(), static_cast<std::int64_t>(at)',
     'spans(), static_cast<std::int64_t>(at - mine.front())'),
    ("losses divided by the device's rows", TEXTS, 'return make_one(step, parts[i], now);',
     '{ auto batch = make_one(step, parts[i], now); batch.global_rows = 0;'
     ' for (const StepPart& part : parts) batch.global_rows += part.rows.size(); return batch; }'),
    ("losses divided by the batch's rows", TEXTS, 'builder.build(static_cast<std::int64_t>(global.size())',
     'builder.build(std::max<std::int64_t>(1, std::ssize(mine))'),
    ('a padding forward of FSDP counts', 'train/parallel/sharded_data_parallel.cpp', 'if (!counts) return drop_gradients();',
     'static_cast<void>(counts);'),
]
# Equal runs: of 8 logical ranks, and of two devices without logical ranks.
LOGICAL = [Run('none', 1), Run('ddp', 2), Run('fsdp', 3)]
DEVICES = [Run('ddp', 2), Run('dp', 2)]


class ProgramBuilder(Builder):
    """`ringlet` with one source compiled anew, whose symbols precede those of the library."""

    @staticmethod
    def target(name):
        return 'train/cli/ringlet'

    def unity(self, mutant, unit, source):
        return source, super().unity(mutant, unit, source)[1]

    def command(self, target, ends_with):
        return super().command(target, ends_with) + ' -Wl,-z,muldefs'


def caught_by(program, data, folder):
    """The first run that fails, or differs from the first of its list; else nothing."""
    for runs, logical in ((LOGICAL, 8), (DEVICES, 0)):
        training = Training(program, data, folder / str(logical), 'softmax', 'f32', logical)
        expected = None
        for run in runs:
            try:
                found = training.one(run)[1]
            except RuntimeError as error:
                line = str(error).splitlines()[-1].removeprefix('ringlet: ').rsplit(' (rank', 1)[0]
                return f'{run.named()}: {line}'
            expected = expected or found
            if found != expected:
                return f'{run.named()} is not {runs[0].named()}' + ('' if logical else ', without logical ranks')
    return ''


def planted(fault, path, text, other):
    source = (ROOT / path).read_text()
    if source.count(text) != 1:
        sys.exit(f'{path}: {text}: expected once, found {source.count(text)} times')
    begin = source.index(text)
    return Mutant(fault, path, source.count('\n', 0, begin) + 1, text, begin, begin + len(text), other, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', 1)[0])
    parser.add_argument('build', nargs='?', default='build', type=pathlib.Path)
    options = parser.parse_args()
    original, survived = options.build.resolve() / 'train/cli/ringlet', []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_data(original, folder / 'data')
        if found := caught_by(original, folder / 'data', folder / 'original'):
            sys.exit(f'without a fault: {found}')
        builder = ProgramBuilder(str(ROOT), str(options.build.resolve()), str(folder))
        print('| fault | caught by |\n|---|---|')
        for mutant in [planted(*fault) for fault in FAULTS]:
            compiled = builder.compile(mutant, mutant.path)
            if compiled is None:
                sys.exit(f'{mutant.kind}: does not compile')
            program = builder.link(mutant, 'ringlet', mutant.path, compiled)
            found = caught_by(program, folder / 'data', folder / mutant.name)
            survived += [] if found else [mutant.kind]
            print(f'| {mutant.kind} | {found or "nothing"} |', flush=True)
            builder.clean(mutant)
    sys.exit(f'{len(survived)} survive' if survived else 0)


if __name__ == '__main__':
    main()
