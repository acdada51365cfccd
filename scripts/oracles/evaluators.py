"""Writes tests/oracles/evaluators.safetensors: the metrics and tables of Sentence Transformers' evaluators for given
embeddings, random and degenerate."""

import pathlib
import tempfile
import warnings

import torch
from sentence_transformers import util
from sentence_transformers.sentence_transformer import evaluation

from oracle import Oracle, i64

NAMES = ["cosine", "dot", "euclidean", "manhattan"]
MATRICES = {"cosine": util.cos_sim, "dot": util.dot_score, "euclidean": util.euclidean_sim,
            "manhattan": util.manhattan_sim}


class Model:
    """An encoder of texts "COLUMN ROW" that looks their float64 embeddings up."""
    similarity_fn_name = "cosine"
    model_card_data = type("Card", (), {"set_evaluation_metrics": lambda *_: None})()

    def __init__(self, **columns):
        self.columns = columns

    def encode(self, texts, convert_to_tensor=False, **_):
        rows = [self.columns[text.split()[0]][int(text.split()[1])] for text in texts]
        return torch.stack(rows) if convert_to_tensor else torch.stack(rows).numpy()

    encode_query = encode_document = encode


def texts(column, rows):
    return [f"{column} {row}" for row in range(rows)]


def record(o, case, evaluator, model, **inputs):
    """The inputs, each metric by its key, the primary one's position, and the table's header with its line end."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metrics = evaluator(model, output_path=folder)
        table, = pathlib.Path(folder).iterdir()
        header = table.read_bytes().splitlines(keepends=True)[0]
        o.add(case, **inputs, table=torch.tensor(list(f"{table.name}\n".encode() + header), dtype=torch.uint8),
              primary=i64(list(metrics).index(evaluator.primary_metric)),
              **{f"metric/{key}": float(value) for key, value in metrics.items()})


def whole(o, high, *shape):
    """Whole numbers, so that products are exact and equal ones are equal."""
    return o.integers(2 * high + 1, *shape).double() - high


def binary(o):
    def add(case, u, v, labels, names):
        rows = len(labels)
        evaluator = evaluation.BinaryClassificationEvaluator(texts("u", rows), texts("v", rows), labels.tolist(),
                                                             name="dev", similarity_fn_names=names)
        record(o, f"binary.{case}", evaluator, Model(u=u, v=v), u=u, v=v, labels=labels)

    u, v = o.randn(40, 8), o.randn(40, 8)
    labels = o.integers(2, 40)
    add("random", u, (v + u * labels.view(-1, 1)).float().double(), labels, NAMES)
    rows = o.integers(5, 40)
    add("duplicates", u[rows], v[rows], labels, NAMES)
    add("cosine", u, v, labels, ["cosine"])
    same = torch.zeros(6, dtype=torch.int64)
    add("equal", u[same], v[same], i64([0, 1, 1, 0, 0, 1]), NAMES)
    add("similar_only", u[:6], v[:6], same + 1, NAMES)
    add("none_similar", u[:6], v[:6], same, NAMES)
    add("one_similar", u[:1], v[:1], i64([1]), NAMES)
    add("one_other", u[:1], v[:1], i64([0]), NAMES)
    add("zeros", u[:6] * 0, v[:6] * 0, i64([0, 1, 1, 0, 0, 1]), NAMES)


def triplet(o):
    def add(case, a, p, n, margin=None, names=NAMES):
        rows = len(a)
        evaluator = evaluation.TripletEvaluator(texts("a", rows), texts("p", rows), texts("n", rows), name="dev",
                                                margin=margin, similarity_fn_names=names)
        record(o, f"triplet.{case}", evaluator, Model(a=a, p=p, n=n), a=a, p=p, n=n,
               margins=torch.tensor([(margin or {}).get(name, 0) for name in NAMES]).double())

    a, n = o.randn(64, 8), o.randn(64, 8)
    p = (a * 0.3 + o.randn(64, 8)).float().double()
    add("random", a, p, n)
    add("margins", a, p, n, {"cosine": 0.25, "manhattan": 1.5})
    add("cosine", a, p, n, names=["cosine"])
    add("equal", a, p, p)
    add("one", a[:1], a[:1], n[:1])


def retrieval(o):
    def add(case, q, d, relevant, missing, names, **cutoffs):
        queries = {f"q{i}": f"q {i}" for i in range(len(q))}
        corpus = {f"d{i}": f"d {i}" for i in range(len(d))}
        of_query = {f"q{i}": {f"d{j}" for j in range(len(d)) if relevant[i, j]} |
                             {f"x{j}" for j in range(missing[i])} for i in range(len(q))}
        evaluator = evaluation.InformationRetrievalEvaluator(
            queries, corpus, of_query, name="dev", corpus_chunk_size=len(d),
            score_functions={name: MATRICES[name] for name in names}, **cutoffs)
        record(o, f"retrieval.{case}", evaluator, Model(q=q, d=d), q=q, d=d, relevant=relevant.bool(), missing=missing)

    q, d = o.randn(30, 8), o.randn(150, 8)
    relevant = (o.uniform(0, 1, 30, 150) < 0.03).long() | ((q @ d.T) > 6).long()
    missing = (o.integers(4, 30) == 0).long() * 2
    missing[0] = 1
    relevant[1] = 0
    missing[1] = 0  # a query without a relevant document
    add("random", q, d, relevant, missing, NAMES)
    small = {"accuracy_at_k": [1, 4], "precision_recall_at_k": [2], "mrr_at_k": [3, 7], "ndcg_at_k": [5, 2],
             "map_at_k": [6]}
    add("cutoffs", q, d, relevant, missing, ["cosine"], **small)
    add("ties", whole(o, 1, 30, 3), whole(o, 1, 150, 3), relevant, missing, ["dot"])
    add("equal", q, d * 0, relevant, missing, ["dot"])
    add("few", q[:2], d[:3], i64([[0, 1, 0], [0, 0, 0]]), i64([2, 1]), ["dot"])
    add("one", q[:1], d[:1], i64([[1]]), i64([0]), ["cosine"])


def reranking(o):
    def add(case, q, d, positive, negative, names, **options):
        samples, begin = [], 0
        for i in range(len(q)):
            end = begin + int(positive[i])
            last = end + int(negative[i])
            samples.append({"query": f"q {i}", "positive": [f"d {j}" for j in range(begin, end)],
                            "negative": [f"d {j}" for j in range(end, last)]})
            begin = last
        evaluator = evaluation.RerankingEvaluator(samples, name="dev", similarity_fct=MATRICES[names], **options)
        record(o, f"reranking.{case}", evaluator, Model(q=q, d=d), q=q, d=d, positive=positive, negative=negative,
               at_k=i64(options.get("at_k", 10)), similarity=i64(NAMES.index(names)))

    positive, negative = o.integers(4, 12) + 1, o.integers(14, 12) + 1
    count = int(positive.sum() + negative.sum())
    q, d = o.randn(12, 8), o.randn(count, 8)
    add("random", q, d, positive, negative, "cosine")
    add("at_3", q, d, positive, negative, "cosine", at_k=3)
    add("ties", whole(o, 1, 12, 3), whole(o, 1, count, 3), positive, negative, "dot")
    add("equal", q, d * 0, positive, negative, "dot")
    add("one", q[:1], d[:2], i64([1]), i64([1]), "cosine")


def others(o):
    u, v = o.randn(40, 8), o.randn(40, 8)
    scores = o.uniform(0, 1, 40)
    evaluator = evaluation.EmbeddingSimilarityEvaluator(texts("u", 40), texts("v", 40), scores.tolist(), name="dev",
                                                        similarity_fn_names=NAMES)
    record(o, "similarity.random", evaluator, Model(u=u, v=v), u=u, v=v, scores=scores)
    evaluator = evaluation.MSEEvaluator(texts("u", 40), texts("v", 40), Model(u=u), name="dev")
    record(o, "mse.random", evaluator, Model(v=v), u=u, v=v)
    evaluator = evaluation.MSEEvaluator(texts("u", 1), texts("v", 1), Model(u=u), name="")
    record(o, "mse.nameless", evaluator, Model(v=v), u=u[:1], v=v[:1])


def main():
    o = Oracle(seed=18)
    for family in (binary, triplet, retrieval, reranking, others):
        family(o)
    o.save("evaluators.safetensors")


if __name__ == "__main__":
    main()
