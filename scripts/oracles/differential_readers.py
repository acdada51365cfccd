"""Random files of scored pairs: `ringlet evaluate` against csv, json and Sentence Transformers' evaluator."""

import csv
import json
import math

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
from sentence_transformers.util import pairwise_cos_sim

from differential_case import Difference, generators, run
from differential_encode import compare_each, refusal
from differential_folders import Folder
from differential_ops import condition
from differential_tables import unquoted
from differential_texts import line, text

COLUMNS = ["sentence1", "sentence2", "score"]


def model_of(options):
    """One plain folder for all cases."""
    if not hasattr(options, "plain"):
        path = options.scratch / "plain"
        path.mkdir(exist_ok=True)
        Folder("evaluate", changes=[]).write(path)
        options.plain = path, SentenceTransformer(str(path), device="cpu").double()
    return options.plain


def scores(r, count, scale):
    """Scores up to `scale`, some equal, tied or tiny."""
    kind = r.random()
    if kind < 0.1:
        return [r.choice((0.1, 0.0, scale / 3))] * count
    if kind < 0.2:
        return [r.random() * 1e-170 for _ in range(count)]
    if kind < 0.5:
        return [r.choice((0, scale / 2, scale)) for _ in range(count)]
    return [round(r.random() * scale, 3) for _ in range(count)]


def write_table(r, path, rows, delimiter, header):
    """As a spreadsheet or a benchmark writes it, with columns in any order; returns the rows as csv reads them."""
    names = r.sample(COLUMNS + ["note"], 4) if header else COLUMNS
    how = {"delimiter": delimiter, "lineterminator": r.choice(("\n", "\r\n"))}
    if delimiter == "\t":
        how |= {"quoting": csv.QUOTE_NONE, "quotechar": None}
        rows = [{key: str(value).translate({c: " " for c in b"\t\r\n"}) for key, value in row.items()} for row in rows]
    else:
        how |= {"quoting": r.choice((csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC))}
        if r.random() < 0.5:  # without quotes, a lone carriage return would end the row in Python
            how["quoting"] = csv.QUOTE_MINIMAL
            rows = [{key: str(value).replace("\r", " ") for key, value in row.items()} for row in rows]
    with open(path, "w", encoding=r.choice(("utf-8", "utf-8-sig")), newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore", **how)
        if header:
            writer.writeheader()
        writer.writerows(row | {"note": "n"} for row in rows)
    del how["lineterminator"]
    with open(path, encoding="utf-8-sig", newline="") as file:
        read = list(csv.DictReader(file, None if header else names, **how))
    if delimiter == "\t":
        read = [{key: unquoted(value) for key, value in row.items()} for row in read]
    return read


def write_lines(r, path, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        for row in rows:
            row = row | r.choice(({}, {"note": [1, {"a": None}], "x": None}))
            row = {key: row[key] for key in r.sample(list(row), len(row))}
            file.write(json.dumps(row, ensure_ascii=r.random() < 0.5) + r.choice(("\n", "\r\n", "\n\n")))
    with open(path, encoding="utf-8", newline="\n") as file:
        return [json.loads(each) for each in file if each.strip()]


def write_case(r, options):
    """The file, the options it needs, and its rows as Python reads them, scores divided by the best one."""
    kind = r.choice(("csv", "csv", "tsv", "jsonl", "stsb"))
    scale = 5 if kind == "stsb" else r.choice((1, 1, 10))
    make = line if kind == "tsv" else text
    count = r.randint(3, 30)
    rows = [{"sentence1": make(r), "sentence2": make(r), "score": score} for score in scores(r, count, scale)]
    for key in COLUMNS[:2]:  # tabs in the first row decide the format
        rows[0][key] = rows[0][key].replace("\t", " ")
    path = options.scratch / f"pairs.{'csv' if kind == 'stsb' else kind}"
    if kind == "jsonl":
        read = write_lines(r, path, rows)
    else:
        read = write_table(r, path, rows, "\t" if kind == "tsv" else ",", header=kind != "stsb")
    declared = scale == 10 or kind == "stsb" and max(float(row["score"]) for row in read) <= 1
    more = ["--score-scale", scale] if declared else []
    return kind, path, more, [(row["sentence1"], row["sentence2"], float(row["score"]) / scale) for row in read]


def reader_case(name, options, tally):
    r, _ = generators(name)
    folder, model = model_of(options)
    kind, path, more, rows = write_case(r, options)
    done = run(options.ringlet, "evaluate", "--model", folder, "--data", path, "--json", *more)
    if done.returncode != 0:
        return refusal(done, f"files of pairs, {kind}", tally)
    ours = json.loads(done.stdout)
    if ours["rows"] != len(rows):
        raise Difference(f"{kind}: {ours['rows']} rows, Python reads {len(rows)}")
    first, second, gold = zip(*rows)
    expected = EmbeddingSimilarityEvaluator(first, second, gold, main_similarity="cosine")(model)
    cosines = pairwise_cos_sim(*(model.encode(list(side), convert_to_tensor=True) for side in (first, second)))
    gaps = cosines.sort().values.diff()
    worst = 0.0
    for figure in ("pearson", "spearman"):
        if figure == "spearman" and gaps.min() < 1e-5:
            continue  # ranks depend on rounding
        theirs = expected[f"{figure}_cosine"]
        mine = next(value for key, value in ours.items() if key.endswith(f"{figure}_cosine"))
        mine = math.nan if mine is None else mine
        allowed = 64 * 2.0 ** -24 * condition(cosines)
        share = 0.0 if math.isnan(mine) and math.isnan(theirs) else abs(mine - theirs) / allowed
        if not share <= 1:
            raise Difference(f"{kind}, {len(rows)} rows: {figure} {mine}, the peer's {theirs}")
        worst = max(worst, share)
    tally.count(f"files of pairs, {kind}", worst)
    tally.count("rows of such files", worst, len(rows))


batch = compare_each(reader_case)
