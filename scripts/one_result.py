#!/usr/bin/env python3
"""The SHA-256 of `ringlet train --logical-ranks 8` on any number of ranks, as a table.

    scripts/one_result.py [BUILD] [--sample] [--jobs N]

Trains the tiny model with a softmax, a cosine and a ranking loss, in f32 and bf16, with clipping, two batches of
accumulation and an incomplete last batch, on 1 to 8 ranks of each strategy over shm and gloo. One of the runs of each
row is stopped on 8 ranks, resumed on 3 and ended on one. A row has one hash, of the model, the optimizer's state and
the figures of the losses and evaluations; the script fails where a run has another one.
"""
import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

LOGICAL, STEPS = 8, 6
LOSSES = {'softmax': 'labelled.jsonl', 'cosine': 'scored.csv', 'mnrl': 'pairs.jsonl'}
ROWS = 39  # two steps of 16, and one of 7: a logical rank has none
OF_TIME = ('pairs_per_s', 'tokens_per_s', 'data_wait_ms', 'page_faults', 'mapped_bytes', 'threads_started')


def runs_of(sample):
    """(strategy, ranks, transport) of a row."""
    yield 'none', 1, 'auto'
    for ranks in (2, 3) if sample else (1, 2, 3, 4, 6, 8):
        for strategy in ('ddp', 'zero2') if sample else ('ddp', 'zero1', 'zero2', 'fsdp'):
            if strategy == 'fsdp' and LOGICAL % ranks:
                continue  # refused: each forward is collective
            for transport in ('shm',) if sample else ('shm', 'gloo'):
                yield strategy, ranks, transport


class Training:
    def __init__(self, program, data, folder, loss, dtype):
        self.folder, self.loss, self.dtype = folder, loss, dtype
        file = data / LOSSES[loss]
        self.command = [program, 'train', '--model', 'tiny', '--data', f'{file}:{loss}', '--eval', file, '--batch', '1',
                        '--gradient-accumulation-steps', '2', '--logical-ranks', str(LOGICAL), '--dtype', dtype,
                        '--max-steps', str(STEPS), '--clip', '0.5', '--threads-per-device', '1', '--no-progress',
                        '--eval-steps', str(STEPS), '--logging-steps', '1', '--save-steps', '2', '--seed', '3']

    def train(self, output, strategy, ranks, transport, *more):
        command = self.command + ['--output', output, '--strategy', strategy, *more]
        if strategy != 'none':
            command += ['--devices', str(ranks), '--transport', transport]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f'{" ".join(map(str, command))}\n{done.stderr}')

    def digest(self, output):
        sha = hashlib.sha256()
        sha.update((output / 'model/model.safetensors').read_bytes())
        sha.update((output / f'checkpoint-{STEPS}/optimizer.safetensors').read_bytes())
        for line in (output / 'metrics.jsonl').read_text().splitlines():
            figures = json.loads(line).items()
            sha.update(json.dumps([figure for figure in figures if figure[0] not in OF_TIME]).encode())
        return sha.hexdigest()

    def one(self, strategy, ranks, transport):
        output = self.folder / f'{self.loss}-{self.dtype}-{strategy}-{ranks}-{transport}'
        self.train(output, strategy, ranks, transport)
        return f'{strategy} on {ranks} over {transport}', self.digest(output)

    def resumed(self):
        """8 ranks, then 3, then one: each goes on after the checkpoint that is left."""
        output = self.folder / f'{self.loss}-{self.dtype}-resumed'
        self.train(output, 'zero1', 8, 'shm')
        for left, strategy, ranks in ((2, 'ddp', 3), (4, 'none', 1)):
            for checkpoint in output.glob('checkpoint-*'):
                if int(checkpoint.name.split('-')[1]) > left:
                    subprocess.run(['rm', '-r', checkpoint], check=True)
            subprocess.run(['rm', '-r', output / 'model'], check=True)
            self.train(output, strategy, ranks, 'auto', '--resume')
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
                    found = list(pool.map(lambda run: training.one(*run), runs_of(options.sample)))
                found.append(training.resumed())
                expected = found[0][1]
                print(f'| {loss} | {dtype} | {len(found)} | {expected[:32]} |', flush=True)
                for run, digest in found:
                    if digest != expected:
                        wrong += 1
                        print(f'{loss} {dtype}: {run}: {digest[:32]}', file=sys.stderr)
    sys.exit(f'{wrong} runs differ' if wrong else 0)


if __name__ == '__main__':
    main()
