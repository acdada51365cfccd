"""Trains an encoder with Sentence Transformers for comparison with `ringlet train` on the same rows and steps.

The reference's job, in turn (round robin): SNLI dev's odd rows in MultiNLI's form and its even rows with SoftmaxLoss
each, STSB train with CosineSimilarityLoss. Or --job ranking: anchors of SNLI dev with an entailment and a contradiction,
with MultipleNegativesRankingLoss. One batch a step, AdamW
without decay, clip 1.0, linear schedule with 10 % warm-up. Then STSB dev Spearman, and for ranking NDCG@10 of finding
the entailments of 500 anchors that were not trained on among all their entailments and contradictions.

usage: python scripts/oracles/compare_training.py --model FOLDER --data $RINGLET_DATA --rows rows --steps 360
           [--job ranking [--mini-batch 16]] [--seeds 1 2 3] [--ringlet build/train/ringlet]
With --ringlet that program trains on the same rows before each seed, and both are compared: points, pairs/s, memory.
`rows` holds the training rows in their order, multinli.jsonl, snli.jsonl and stsb.csv, or triplets.jsonl: taken as they
are if they exist, drawn and written otherwise.
"""

import argparse
import csv
import json
import math
import pathlib
import random
import re
import resource
import statistics
import subprocess
import tempfile
import time

import torch
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer, evaluation, losses
from transformers import get_linear_schedule_with_warmup

NAMES = ["STSB dev Spearman", "NDCG@10"]
LABELS = {"entailment": 0, "neutral": 1, "contradiction": 2}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="Sentence Transformers folder to start from")
    parser.add_argument("--data", required=True, type=pathlib.Path, help="folder with snli/ and stsb/")
    parser.add_argument("--rows", required=True, type=pathlib.Path, help="folder with the rows in order")
    parser.add_argument("--job", choices=["reference", "ranking"], default="reference")
    parser.add_argument("--mini-batch", type=int, help="ranking: rows of a forward, by gradient caching")
    parser.add_argument("--steps", type=int, default=360)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-5)
    parser.add_argument("--warmup", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="dropout and classifier, one run each")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--bf16", action="store_true", help="activations, by autocast")
    parser.add_argument("--ringlet", help="the program, to train on the same rows and steps")
    parser.add_argument("--output", help="where to save the last run's model")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def order(count, needed, draw):
    """`needed` row numbers: whole permutations one after the other."""
    rows = []
    while len(rows) < needed:
        rows += draw.sample(range(count), count)
    return rows[:needed]


def prepare_rows(arguments):
    """Draws and writes the rows unless they are there; returns the data sets in training order."""
    arguments.rows.mkdir(parents=True, exist_ok=True)
    return prepare_triplets(arguments) if arguments.job == "ranking" else prepare_pairs(arguments)


def snli_rows(arguments):
    lines = (arguments.data / "snli" / "snli_dev.jsonl").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if json.loads(line)["gold_label"] in LABELS]


def write_lines(path, lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def all_triplets(arguments):
    by_anchor = {}
    for line in snli_rows(arguments):
        row = json.loads(line)
        by_anchor.setdefault(row["sentence1"], {}).setdefault(row["gold_label"], row["sentence2"])
    return [{"anchor": anchor, "positive": texts["entailment"], "negative": texts["contradiction"]}
            for anchor, texts in by_anchor.items() if "entailment" in texts and "contradiction" in texts]


def prepare_triplets(arguments):
    path = arguments.rows / "triplets.jsonl"
    if not path.exists():
        triplets = all_triplets(arguments)
        drawn = order(len(triplets), arguments.steps * arguments.batch, random.Random(0))
        write_lines(path, (json.dumps(triplets[i]) for i in drawn))
    return [[(row["anchor"], row["positive"], row["negative"], 0) for row in read_lines(path)]]


def prepare_pairs(arguments):
    nli_paths, stsb_path = [arguments.rows / f"{name}.jsonl" for name in ("multinli", "snli")], arguments.rows / "stsb.csv"
    needed = (arguments.steps + 2) // 3 * arguments.batch
    draw = random.Random(0)
    for path, lines, more in zip(nli_paths, (snli_rows(arguments)[1::2], snli_rows(arguments)[::2]),
                                 ({"genre": "captions", "annotator_labels": []}, {})):
        if not path.exists():
            write_lines(path, (json.dumps(json.loads(lines[i]) | more) for i in order(len(lines), needed, draw)))
    if not stsb_path.exists():
        rows = read_csv(arguments.data / "stsb" / "stsb-en-train.csv")
        with open(stsb_path, "w", encoding="utf-8", newline="") as out:
            csv.writer(out, lineterminator="\n").writerows(rows[i] for i in order(len(rows), needed, draw))
    return [*([(row["sentence1"], row["sentence2"], LABELS[row["gold_label"]]) for row in read_lines(path)]
              for path in nli_paths), [(a, b, float(score) / 5) for a, b, score in read_csv(stsb_path)]]


def read_csv(path):
    with open(path, encoding="utf-8", newline="") as rows:
        return list(csv.reader(rows))


def scores(encoder, arguments):
    """STSB dev Spearman, and for ranking NDCG@10."""
    encoder.eval()
    found = [stsb_dev(encoder, arguments)]
    if arguments.job == "ranking":
        trained = {row["anchor"] for row in read_lines(arguments.rows / "triplets.jsonl")}
        rest = [row for row in all_triplets(arguments) if row["anchor"] not in trained][:500]
        found.append(evaluation.InformationRetrievalEvaluator(
            queries={f"{i}": row["anchor"] for i, row in enumerate(rest)},
            corpus={f"{i} {text}": row[text] for i, row in enumerate(rest) for text in ("positive", "negative")},
            relevant_docs={f"{i}": {f"{i} positive"} for i in range(len(rest))},
            ndcg_at_k=[10], write_csv=False)(encoder)["cosine_ndcg@10"])
    return found


def stsb_dev(encoder, arguments):
    rows = read_csv(arguments.data / "stsb" / "stsb-en-dev.csv")
    u, v = (encoder.encode([row[column] for row in rows], normalize_embeddings=True) for column in (0, 1))
    return spearmanr((u * v).sum(1), [float(row[2]) for row in rows]).statistic


def move(features, device):
    return {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in features.items()}


def make_losses(encoder, arguments):
    if arguments.job == "reference":
        nli = (losses.SoftmaxLoss(encoder, encoder.get_embedding_dimension(), num_labels=3) for _ in range(2))
        return (*nli, losses.CosineSimilarityLoss(encoder))
    if arguments.mini_batch:
        return (losses.CachedMultipleNegativesRankingLoss(encoder, mini_batch_size=arguments.mini_batch),)
    return (losses.MultipleNegativesRankingLoss(encoder),)


def train_ringlet(arguments, seed, output):
    """Returns its pairs/s."""
    files = ["triplets.jsonl:mnrl"] if arguments.job == "ranking" else [
        "multinli.jsonl:softmax", "snli.jsonl:softmax", "stsb.csv:cosine"]
    command = [arguments.ringlet, "train", "--model", arguments.model, "--dealing", "round_robin", "--no-shuffle",
               "--batch-sampler", "batch_sampler", "--batch", arguments.batch, "--max-steps", arguments.steps, "--lr",
               arguments.lr, "--warmup", arguments.warmup, "--clip", 1, "--seed", seed, "--output", output,
               "--mini-batch-size", arguments.mini_batch or 0, "--no-progress"]
    for file in files:
        command += ["--data", arguments.rows / file]
    command += ["--device", arguments.device, "--dtype", "bf16" if arguments.bf16 else "f32"]
    if arguments.threads:
        command += ["--threads-per-device", arguments.threads]
    printed = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout
    return float(re.search(r"([0-9.]+) pairs/s", printed)[1])


def train(encoder, data, arguments):
    """Returns the loss of every step of each data set, and pairs/s."""
    makers = make_losses(encoder, arguments)
    parameters = list(torch.nn.ModuleList(makers).to(encoder.device).parameters())
    optimizer = torch.optim.AdamW(parameters, lr=arguments.lr, weight_decay=0.0, eps=1e-8)
    scheduler = get_linear_schedule_with_warmup(optimizer, math.ceil(arguments.warmup * arguments.steps),
                                                arguments.steps)
    torch.nn.ModuleList(makers).train()
    values, started = [[] for _ in data], time.time()
    for step in range(arguments.steps):
        which, start = step % len(data), step // len(data) * arguments.batch
        rows = data[which][start:start + arguments.batch]
        assert len(rows) == arguments.batch, f"step {step}: only {len(rows)} rows left"
        features = [move(encoder.preprocess([row[column] for row in rows]), encoder.device)
                    for column in range(len(rows[0]) - 1)]
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(encoder.device.type, torch.bfloat16, enabled=arguments.bf16):
            value = makers[which](features, torch.tensor([row[-1] for row in rows], device=encoder.device))
        value.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        scheduler.step()
        values[which].append(value.item())
        if step % 21 < 3:
            print(f"  step {step} data set {which} loss {value.item():.4f}, "
                  f"{(step + 1) * arguments.batch / (time.time() - started):.1f} pairs/s", flush=True)
    return values, arguments.steps * arguments.batch / (time.time() - started)


def rounded(values):
    return ", ".join(f"{value:.4f}" for value in values)


def peak_mib(who):
    return resource.getrusage(who).ru_maxrss / 1024


def main():
    arguments = parse()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    data = prepare_rows(arguments)
    before = scores(SentenceTransformer(arguments.model, device=arguments.device), arguments)
    print(f"{NAMES[:len(before)]} before: {rounded(before)}")
    after, curves, rates, ours, our_rates = [], [], [], [], []
    for seed in arguments.seeds:
        if arguments.ringlet:
            with tempfile.TemporaryDirectory() as folder:
                our_rates.append(train_ringlet(arguments, seed, folder + "/out"))
                ours.append(scores(SentenceTransformer(folder + "/out/model", device=arguments.device), arguments))
        torch.manual_seed(seed)
        encoder = SentenceTransformer(arguments.model, device=arguments.device)
        losses_of_steps, rate = train(encoder, data, arguments)
        curves.append(losses_of_steps)
        rates.append(rate)
        after.append(scores(encoder, arguments))
        print(f"seed {seed}: {rounded(after[-1])}, mean loss of the last ten steps of each data set: "
              + ", ".join(f"{statistics.mean(values[-10:]):.4f}" for values in curves[-1]))
    result = {"before": before, "after": after, "steps": arguments.steps, "batch": arguments.batch,
              "lr": arguments.lr, "seeds": arguments.seeds, "losses": curves}
    if arguments.ringlet:
        result |= {"ours": ours, "pairs_per_s": rates, "our_pairs_per_s": our_rates}
        for name, mine, theirs in zip(NAMES, zip(*ours), zip(*after)):
            print(f"ringlet: {name} {rounded(mine)}, median "
                  f"{100 * (statistics.median(mine) - statistics.median(theirs)):+.2f} points from that of Sentence "
                  f"Transformers, {rounded(theirs)} (bound 0.3)")
        print(f"pairs/s, alternately: {', '.join(f'{a:.1f} and {b:.1f}' for a, b in zip(our_rates, rates))}; "
              f"{statistics.median(our_rates) / statistics.median(rates):.2f} times; peak "
              f"{peak_mib(resource.RUSAGE_CHILDREN):.0f} and {peak_mib(resource.RUSAGE_SELF):.0f} MiB")
    if arguments.output:
        encoder.save_pretrained(arguments.output, create_model_card=False)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
