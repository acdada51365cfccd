"""Writes tests/oracles/mining.safetensors: the triplets of Sentence Transformers' mine_hard_negatives for given
embeddings. With MODEL DATA RINGLET [NAME=VALUE...]: mines from the pairs of DATA, a CSV file, with Sentence
Transformers and with the program RINGLET, and prints how many triplets differ, seconds and peak memory of both.
corpus=FILE has a text in each line."""

import json
import os
import subprocess
import sys
import tempfile
import time

import torch

from oracle import Oracle, i64

CASES = {
    "plain": {},
    "range": dict(range_min=2, range_max=12, num_negatives=4),
    "scores": dict(max_score=0.5, min_score=-0.1, num_negatives=6),
    "absolute": dict(absolute_margin=0.1),
    "relative": dict(relative_margin=0.3, num_negatives=2),
    "all": dict(absolute_margin=0.05, relative_margin=0.1, max_score=0.6, min_score=0.05, range_min=1),
    "close": dict(num_negatives=5, range_max=5),
}


class Model:
    """An encoder of texts "COLUMN ROW" that looks their embeddings up."""
    similarity_fn_name = "cosine"
    device = torch.device("cpu")
    model_card_data = type("Card", (), {"base_model": None})()

    def __init__(self, **columns):
        self.columns = columns

    def encode(self, texts, **_):
        rows = torch.stack([self.columns[text.split()[0]][int(text.split()[1])] for text in texts]).float()
        return torch.nn.functional.normalize(rows).numpy()

    encode_query = encode_document = encode

    def similarity(self, a, b):
        return torch.as_tensor(a) @ torch.as_tensor(b).T

    def similarity_pairwise(self, a, b):
        return (torch.as_tensor(a) * torch.as_tensor(b)).sum(1)


def write_oracle():
    from datasets import Dataset
    from sentence_transformers.util import mine_hard_negatives
    oracle = Oracle(11)
    anchors, documents = oracle.randn(24, 8), oracle.randn(60, 8)
    documents[:24] += anchors  # similar pairs
    pairs = [(i, i) for i in range(24)] + [(3, 5), (3, 40), (7, 41), (0, 2), (3, 5)]
    model = Model(a=anchors, d=documents)
    dataset = Dataset.from_dict({"anchor": [f"a {a}" for a, _ in pairs], "positive": [f"d {d}" for _, d in pairs]})
    oracle.add("mining", anchors=anchors, documents=documents, pairs=i64(pairs))
    row = lambda text: int(text.split()[1])
    for name, options in CASES.items():
        for corpus in (False, True):
            mined = mine_hard_negatives(dataset, model, output_scores=True, verbose=False, **options,
                                        corpus=[f"d {i}" for i in range(60)] if corpus else None)
            oracle.add(f"mined.{name}{'_corpus' if corpus else ''}", corpus=corpus,
                       triplets=i64([[row(r["anchor"]), row(r["positive"]), row(r["negative"])] for r in mined]),
                       scores=torch.tensor([r["scores"] for r in mined]), **{k: float(v) for k, v in options.items()})
    oracle.save("mining.safetensors")


def peer(model, data):
    """Prints the triplets as JSON lines, and the time and memory on stderr."""
    import resource
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import mine_hard_negatives
    pairs = Dataset.from_csv(data)
    encoder = SentenceTransformer(model, device="cpu")
    start = time.perf_counter()
    options = json.loads(os.environ["MINING"])
    if "corpus" in options:
        with open(options["corpus"], encoding="utf-8") as lines:
            options["corpus"] = lines.read().splitlines()
    mined = mine_hard_negatives(pairs, encoder, output_scores=True, **options)
    print(f"{time.perf_counter() - start:.1f} s, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB",
          file=sys.stderr)
    mined.to_json(os.environ["MINED"])


def rows_of(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def compare(model, data, ringlet, options):
    folder = tempfile.mkdtemp()
    theirs, ours = (os.path.join(folder, name) for name in ("theirs.jsonl", "ours.jsonl"))
    chosen = dict(word.split("=") for word in options)
    chosen = {name: value if name == "corpus" else json.loads(value) for name, value in chosen.items()}
    words = [w for key, value in chosen.items() for w in ("--" + key.replace("_", "-"), str(value))]
    command = ["/usr/bin/time", "-f", "%e s, %M KiB with loading", ringlet, "mine", model, "--data", data, "--output",
               ours, "--output-scores", *words]
    subprocess.run(command, check=True)
    subprocess.run([sys.executable, __file__, "--peer", model, data], check=True,
                   env={**os.environ, "MINING": json.dumps(chosen), "MINED": theirs})
    found, expected = rows_of(ours), rows_of(theirs)
    keys = list(expected[0])[:3]
    first = {(r["anchor"], r["positive"], r["negative"]): r["scores"] for r in found}
    second = {tuple(r[key] for key in keys): r["scores"] for r in expected}
    shared = first.keys() & second.keys()
    worst = max(abs(x - y) for key in shared for x, y in zip(first[key], second[key]))
    print(f"{len(first)} triplets of ringlet, {len(second)} of Sentence Transformers, {len(shared)} in both; their "
          f"scores differ by {worst:.1e} at most")
    for name, only in (("ringlet", first.keys() - second.keys()), ("Sentence Transformers", second.keys() - first.keys())):
        for key in list(only)[:5]:
            print(f"  only {name}: {key} {(first if name == 'ringlet' else second)[key]}")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        write_oracle()
    elif sys.argv[1] == "--peer":
        peer(*sys.argv[2:4])
    else:
        compare(*sys.argv[1:4], sys.argv[4:])
