#!/usr/bin/env python3
"""The SHA-256 of `ringlet train --logical-ranks 8` on any number of ranks, as a table.

    scripts/one_result.py [BUILD] [--sample] [--jobs N]

Trains the tiny model with a softmax, a cosine and a ranking loss, in f32 and bf16, with clipping, two batches of
accumulation and an incomplete last batch, on 1 to 8 ranks of each strategy over shm and gloo, with one and two threads
a device. One of the runs of each row is stopped on 8 ranks, resumed on 3 and ended on one. A row has one hash, of the
model, the optimizer's state and the figures of the losses and evaluations; the script fails where a run has another
one. A second table has the layouts that are refused, with the program's reasons.
"""
import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import typing

LOGICAL, STEPS = 8, 6
LOSSES = {'softmax': 'labelled.jsonl', 'cosine': 'scored.csv', 'mnrl': 'pairs.jsonl'}
ROWS = 39  # two steps of 16, and one of 7: a logical rank has none
OF_TIME = ('pairs_per_s', 'tokens_per_s', 'data_wait_ms', 'page_faults', 'mapped_bytes', 'threads_started')


class Run(typing.NamedTuple):
    strategy: str
    ranks: int
    transport: str = 'shm'
    threads: int = 1
    options: str = ''

    def named(self):
        return f'{self.strategy} on {self.ranks}' + (f', {self.options}' if self.options else '')

    def words(self):
        ranks = [] if self.strategy == 'none' else ['--devices', str(self.ranks)]
        transport = [] if self.strategy in ('none', 'dp') else ['--transport', self.transport]
        return ['--strategy', self.strategy, *ranks, *transport, *self.options.split(), '--threads-per-device',
                str(self.threads)]


def runs_of(sample):
    """The runs of a row."""
    if sample:
        return [Run('none', 1), Run('none', 1, threads=2)] + [
            Run(strategy, ranks) for ranks in (2, 3) for strategy in ('ddp', 'zero2', 'fsdp')]
    layouts = [Run(strategy, ranks) for ranks in (1, 2, 3, 4, 6, 8) for strategy in ('ddp', 'zero1', 'zero2', 'fsdp')]
    # Hybrid sharding: blocks of ranks, each with a power of two of logical ranks.
    layouts += [Run('fsdp', ranks, options=f'--fsdp-shard-size {block}')
                for ranks, block in ((2, 1), (4, 2), (6, 3), (8, 2), (8, 4))]
    runs = [Run('none', 1, threads=threads) for threads in (1, 2)]
    for transport, threads in (('shm', 1), ('gloo', 1), ('shm', 2)):
        runs += [run._replace(transport=transport, threads=threads) for run in layouts]
    return runs


REFUSED = (Run('dp', 2), Run('ddp', 2, options='--mesh pipe=2'), Run('ddp', 2, options='--mesh tensor=2'),
           Run('ddp', 2, options='--algorithm ring'), Run('fsdp', 6, options='--fsdp-shard-size 2'), Run('ddp', 9))


class Training:
    def __init__(self, program, data, folder, loss, dtype, logical=LOGICAL):
        self.folder, self.loss, self.dtype, self.logical = folder, loss, dtype, logical
        file = data / LOSSES[loss]
        self.command = [program, 'train', '--model', 'tiny', '--data', f'{file}:{loss}', '--eval', file, '--batch', '1',
                        '--gradient-accumulation-steps', '2', '--dtype', dtype,
                        '--max-steps', str(STEPS), '--clip', '0.5', '--no-progress',
                        '--eval-steps', str(STEPS), '--logging-steps', '1', '--seed', '3']
        if logical:
            self.command += ['--logical-ranks', str(logical)]

    def started(self, output, run, *more, save=STEPS):
        command = self.command + ['--save-steps', str(save), '--output', output, *run.words(), *more]
        return command, subprocess.run(command, capture_output=True, text=True)

    def train(self, output, run, *more, save=STEPS):
        command, done = self.started(output, run, *more, save=save)
        if done.returncode:
            raise RuntimeError(f'{" ".join(map(str, command))}\n{done.stderr}')

    def reason(self, run):
        """Why the program refuses it."""
        command, done = self.started(self.folder / 'refused', run)
        if done.returncode != 2:
            raise RuntimeError(f'{" ".join(map(str, command))}\nexit code {done.returncode}, not 2')
        return done.stderr.strip().removeprefix('ringlet: ')

    def digest(self, output):
        sha = hashlib.sha256()
        sha.update((output / 'model/model.safetensors').read_bytes())
        sha.update((output / f'checkpoint-{STEPS}/optimizer.safetensors').read_bytes())
        if not self.logical:
            return sha.hexdigest()  # dp adds the reported losses of its devices in f32
        for line in (output / 'metrics.jsonl').read_text().splitlines():
            figures = json.loads(line).items()
            sha.update(json.dumps([figure for figure in figures if figure[0] not in OF_TIME]).encode())
        return sha.hexdigest()

    def one(self, run):
        name = ' '.join(run.words())
        output = self.folder / f'{self.loss}-{self.dtype}-{name.replace(" ", "")}'
        self.train(output, run)
        return name, self.digest(output)

    def resumed(self):
        """8 ranks, then 3, then one: each goes on after the checkpoint that is left."""
        output = self.folder / f'{self.loss}-{self.dtype}-resumed'
        self.train(output, Run('zero1', 8), save=2)
        for left, run in ((2, Run('fsdp', 3)), (4, Run('none', 1))):
            for checkpoint in output.glob('checkpoint-*'):
                if int(checkpoint.name.split('-')[1]) > left:
                    subprocess.run(['rm', '-r', checkpoint], check=True)
            subprocess.run(['rm', '-r', output / 'model'], check=True)
            self.train(output, run, '--resume', save=2)
        return 'resumed on 3 and 1', self.digest(output)


def make_data(program, data):
    subprocess.run([program, 'make-data', data, '--rows', '300'], check=True, capture_output=True)
    labelled = (data / 'nli-train.jsonl').read_text().splitlines()
    pairs = [{'anchor': row['sentence1'], 'positive': row['sentence2']} for row in map(json.loads, labelled)
             if row['gold_label'] == 'entailment']
    scored = (data / 'sts-train.csv').read_text().splitlines()
    for name, lines in (('labelled.jsonl', labelled), ('scored.csv', scored), ('pairs.jsonl', map(json.dumps, pairs))):
        (data / name).write_text('\n'.join(list(lines)[:ROWS]) + '\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('build', nargs='?', default='build', type=pathlib.Path)
    parser.add_argument('--sample', action='store_true', help='a few of the runs')
    parser.add_argument('--jobs', type=int, default=1, help='runs at a time')
    options = parser.parse_args()
    program = options.build / 'train/cli/ringlet'
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = folder / 'data'
        make_data(program, data)
        print('| loss | dtype | runs | SHA-256 |\n|---|---|---|---|')
        for loss in ('mnrl',) if options.sample else LOSSES:
            for dtype in ('f32',) if options.sample else ('f32', 'bf16'):
                training = Training(program, data, folder, loss, dtype)
                with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                    found = list(pool.map(training.one, runs_of(options.sample)))
                found.append(training.resumed())
                expected = found[0][1]
                print(f'| {loss} | {dtype} | {len(found)} | {expected[:32]} |', flush=True)
                for run, digest in found:
                    if digest != expected:
                        wrong += 1
                        print(f'{loss} {dtype}: {run}: {digest[:32]}', file=sys.stderr)
        print('\n| refused | reason |\n|---|---|')
        for run in REFUSED:
            print(f'| {run.named()} | {training.reason(run)} |')
    sys.exit(f'{wrong} runs differ' if wrong else 0)


if __name__ == '__main__':
    main()
