"""Random tables: a built read_rows against pandas and the columns that Sentence Transformers' collator takes.

Columns come in any order, some without use, numbered, twice or renamed; with scales, splits and labels.
"""

import csv
import json
import re

import pandas
from sentence_transformers.sentence_transformer.data_collator import SentenceTransformerDataCollator

from differential_case import Difference, generators, run
from differential_texts import line, text

CLASSES = ["entailment", "neutral", "contradiction"]
STSB = ["genre", "file", "year", "id", "score", "sentence1", "sentence2"]
UNUSED = ["note", "id", "sentence1_parse", "negatives", "labels", "positive_2", "Sentence1", "split_2", "sentence_"]
SPLITS = ["train", "dev", "test", " dev ", ""]


class Refused(Exception):
    """The reason why a file is not read."""


def target_values(r, name, count):
    """Labels or scores; few columns have values that are not allowed there."""
    if name in ("label", "gold_label"):
        values = r.choice((["0", "1"], ["0", "1", "2"], CLASSES, ["0.0", "1.0"], ["2", *CLASSES],
                           ["true", "false"], ["True", "False"]))
        odd = ["-", "-1", "-1"] if name == "gold_label" else ["-1", "-", "x", "1.5"]
        share = 0.2 if name == "gold_label" else r.choice((0, 0, 0, 0.1))
        return [r.choice(odd) if r.random() < share else r.choice(values) for _ in range(count)]
    low, high = r.choice(((0, 1), (0, 1), (-1, 1), (0, 5), (0, 5), (-5, 5), (0, 10)))
    values = [str(round(r.uniform(low, high), r.choice((0, 1, 3)))) for _ in range(count)]
    return [r.choice(("", "nan", "inf", "high")) if r.random() < 0.003 else value for value in values]


def numbers(r, base, first):
    """The names of columns numbered from `first`, a few with a gap or a number twice."""
    join = r.choice(("", "_"))
    names = [f"{base}{join}{first + i}" for i in range(r.choice((0, 1, 1, 2, 3, 15)))]
    if len(names) > 1 and r.random() < 0.1:
        names.pop(r.randrange(len(names) - 1))
    if names and r.random() < 0.05:
        names.append(r.choice((names[-1].replace(base, base + "_"), names[-1].replace("_", ""))))
    return list(dict.fromkeys(names))


def header_of(r):
    """The names with a role."""
    layout = r.choice(("pair", "pair", "pair", "anchor", "anchor", "single", "nli", "stsb"))
    if layout == "anchor":
        negatives = r.choice(([], [], ["negative"])) + numbers(r, "negative", r.choice((0, 1, 1, 1, 2)))
        return ["anchor", "positive", *negatives]
    if layout == "single":
        return ["sentence", "label"]
    names = ["sentence1", "sentence2"]
    if layout == "nli":
        return [*names, "gold_label"]
    if layout == "stsb":
        return [*names, "score", "genre"]
    more = numbers(r, "sentence", 3) if r.random() < 0.3 else []
    return names + more + r.choice(([], ["label"], ["score"], ["score"]))


def rows_of(r, names, make):
    count = r.randint(1, 20)
    columns = {}
    for name in names:
        if name in ("label", "gold_label", "score"):
            columns[name] = target_values(r, name, count)
        elif name == "split":
            kinds = r.sample(SPLITS, r.choice((1, 2, 3)))
            columns[name] = [r.choice(kinds) for _ in range(count)]
        else:
            columns[name] = [make(r).replace("\x00", "") for _ in range(count)]
    return [[columns[name][i] for name in names] for i in range(count)]


def unquoted(field):
    """A field of a TSV file whose quotes are a part of the text, unless they surround all of it."""
    return field[1:-1].replace('""', '"') if re.fullmatch(r'"(?:[^"]|"")*"', field) else field


class Table:
    """A file, its options, and its rows as pandas reads them."""

    def __init__(self, r, path):
        self.kind = r.choice(("csv", "pandas tsv", "plain tsv", "jsonl"))
        bare = self.kind != "jsonl" and r.random() < 0.15
        self.names = r.choice((["sentence1", "sentence2", "score"], STSB)) if bare else header_of(r)
        if not bare:
            self.names += r.sample(UNUSED, r.choice((0, 0, 1, 2))) + ["split"] * (r.random() < 0.25)
            r.shuffle(self.names)
        self.rows = rows_of(r, self.names, line if "tsv" in self.kind else text)
        self.columns = "" if bare else self.rename(r)
        self.scale = r.choice((None, None, None, 1, 5, 10))
        self.split = r.choice([name.strip() for name in SPLITS]) if "split" in self.names and r.random() < 0.8 else ""
        if r.random() < 0.01:
            self.split = "dev"
        if not bare and self.kind != "jsonl" and r.random() < 0.05:
            self.names[r.randrange(len(self.names))] = r.choice(self.names)
        self.path = path.with_suffix(".tsv" if "tsv" in self.kind else f".{self.kind}")
        if self.kind == "jsonl":
            self.write_lines(r)
        else:
            self.write(r, bare)

    def rename(self, r):
        """Gives some columns of the file another name, which --columns takes back."""
        renames = []
        for i, name in enumerate(self.names):
            if r.random() < 0.1:
                self.names[i] = f"own{i}"
                renames.append(f"own{i}={name}")
        if r.random() < 0.01:
            renames.append("absent=label")
        if renames and r.random() < 0.1 and self.names.count("sentence1") == 0:
            self.names[-1] = "sentence1"
        return ",".join(renames)

    def write(self, r, bare):
        space = {ord(c): " " for c in ("\r" if self.kind == "csv" else "\t\r\n")}
        self.rows = [[field.translate(space) for field in row] for row in self.rows]
        if bare:  # the first row decides the format
            self.rows[0] = [("a" + field).replace("\t", " ") if name.startswith(("sentence", "genre")) else field
                            for name, field in zip(self.names, self.rows[0])]
        how = {"sep": "," if self.kind == "csv" else "\t", "encoding": r.choice(("utf-8", "utf-8-sig"))}
        if self.kind == "plain tsv":
            lines = ["\t".join(row) for row in self.rows]
            text = "".join(each + "\n" for each in ([] if bare else ["\t".join(self.names)]) + lines)
            self.path.write_text(text, encoding=how["encoding"], newline="\n")
            how["quoting"] = csv.QUOTE_NONE
        else:
            frame = pandas.DataFrame(self.rows, columns=self.names)
            frame.to_csv(self.path, index=not bare and r.random() < 0.2, header=not bare,
                         quoting=r.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL)), lineterminator=r.choice(("\n", "\r\n")),
                         **how)
        read = pandas.read_csv(self.path, header=None, dtype=str, keep_default_na=False,
                               skip_blank_lines=False, **how | {"encoding": "utf-8-sig"})
        fields = read.values.tolist()
        if self.kind == "plain tsv":
            fields = [[unquoted(field) for field in row] for row in fields]
        self.header = None if bare else [name.strip() for name in fields.pop(0)]
        self.records = fields

    def write_lines(self, r):
        """Some values are numbers; a few keys are missing in a few objects, mostly in the first ones."""
        objects = [dict(zip(self.names, row)) for row in self.rows]
        for each in objects:
            for name in ("label", "score"):
                if name in each and re.fullmatch(r"-?\d+(\.\d+)?", each[name]):
                    each[name] = json.loads(each[name])
        if r.random() < 0.2:
            for each in objects[:r.randint(1, len(objects))]:
                each.pop(r.choice(self.names), None)
        with open(self.path, "w", encoding="utf-8", newline="") as file:
            for each in objects:
                keys = r.sample(list(each), len(each)) if r.random() < 0.2 else list(each)
                file.write(json.dumps({key: each[key] for key in keys}, ensure_ascii=r.random() < 0.5) + "\n")
        frame = pandas.DataFrame([json.loads(each) for each in open(self.path, encoding="utf-8", newline="\n")],
                                 dtype=object)
        self.header = list(frame.columns)
        self.first = [name for name in self.header if name in objects[0]]
        self.records = frame.values.tolist()

    def case(self):
        return {"file": str(self.path), "columns": self.columns, "split": self.split, "scale": self.scale}


def numbered(names, base):
    """The columns with a number behind `base`; without gaps they begin with 0 or 1."""
    found = sorted((int(name[len(base):].lstrip("_")), name) for name in names
                   if re.fullmatch(base + r"_?\d+", name))
    if [number for number, _ in found] != list(range(found[0][0], found[0][0] + len(found)) if found else []):
        raise Refused("a gap")
    if found and found[0][0] > 1:
        raise Refused("a gap")
    return [name for _, name in found]


def is_number(field):
    try:
        return abs(float(field)) < float("inf") and "_" not in field
    except ValueError:
        return False


def roles(table, names):
    """The texts, the column of the target, the scale, and whether it is assumed."""
    pair = {"sentence1", "sentence2"} <= set(names)
    given = table.scale or 1
    if pair and "gold_label" in names:
        return ["sentence1", "sentence2"], "gold_label", None, False
    if table.header is None or pair and {"score", "genre"} <= set(names):
        return ["sentence1", "sentence2"], "score", table.scale or 5, not table.scale
    target = next((name for name in ("label", "score") if name in names), None)
    if pair:
        texts = numbered(names, "sentence")
    elif "anchor" in names:
        if "positive" not in names:
            raise Refused("no positive")
        texts = ["anchor", "positive"] + ["negative"] * ("negative" in names) + numbered(names, "negative")
    elif "sentence" in names:
        texts = ["sentence"]
    else:
        raise Refused("no columns of texts")
    if len(texts) > 16:
        raise Refused("more than 16 texts")
    return texts, target, given, False


def target_of(value, column, scale, assumed):
    """The label or score of a row; None for a row without one."""
    value = "" if value is None else str(value).strip()
    if column == "score":
        if not is_number(value) or not (0 if assumed else -scale) <= float(value) <= scale:
            raise Refused("a score")
        return float(value) / scale
    if column == "gold_label" and value in ("-", "-1"):
        return None
    if value in CLASSES:
        return CLASSES.index(value)
    if value in ("true", "True", "false", "False"):
        return int(value.lower() == "true")
    if not is_number(value) or float(value) != int(float(value)) or float(value) < 0:
        raise Refused("a label")
    if column == "gold_label" and float(value) > 2:
        raise Refused("a label")
    return int(float(value))


def renamed(table):
    """The names after --columns; a column whose name another one takes has none."""
    renames = dict(part.split("=") for part in table.columns.split(",") if part)
    present = table.first if table.kind == "jsonl" else table.header
    if table.header is None:
        return STSB if len(table.records[0]) == 7 else ["sentence1", "sentence2", "score"]
    if any(name not in present for name in renames):
        raise Refused("a name to replace that is absent")
    names = [renames.get(name, "" if name in renames.values() else name) for name in table.header]
    used = [name for name in names if name]
    if len(used) != len(set(used)):
        raise Refused("a name twice")
    return names


def is_missing(value):
    return value is None or value != value


def expected(table):
    names = renamed(table)
    texts, target, scale, assumed = roles(table, names if table.kind != "jsonl" else names[:len(table.first)])
    has_split = "split" in names
    if table.kind == "jsonl":
        check_late(names[len(table.first):])
    if table.split and not has_split:
        raise Refused("no column split")
    rows, empty, skipped = [], 0, 0
    for record in table.records:
        row = dict(zip(names, record))
        if has_split and (not table.split or is_missing(row["split"]) or row["split"].strip() != table.split):
            continue
        goal = None
        if target:
            if is_missing(row[target]):
                raise Refused("a missing value")
            goal = target_of(row[target], target, scale, assumed)
            if goal is None:
                skipped += 1
                continue
        if any(is_missing(row[name]) for name in texts):
            raise Refused("a missing value")
        rows.append(({name: row[name] for name in texts}, goal))
    if has_split and table.split not in {str(row[names.index("split")]).strip() for row in table.records}:
        raise Refused("no such split")
    if has_split and not table.split:
        raise Refused("no split chosen")
    if not rows:
        raise Refused("no rows")
    if assumed and max(goal for _, goal in rows) * scale <= 1:
        raise Refused("an assumed scale")
    used = [*texts, *([target] if target else []), *(["split"] if has_split else [])]
    unused = [own for own, name in zip(table.header or names, names) if name not in used]
    return collated(rows, target), unused, skipped


def check_late(names):
    roles = r"(negative|sentence)(_?\d+)?|anchor|positive|label|score|gold_label|genre|split"
    if any(re.fullmatch(roles, name) for name in names):
        raise Refused("a late key")


def collated(rows, target):
    """The texts and targets as Sentence Transformers gives them to a loss."""
    collate = SentenceTransformerDataCollator(lambda texts, **_: {"texts": [str(each) for each in texts]})
    batch = collate([row | ({"label": goal} if target else {}) for row, goal in rows])
    columns = [value for key, value in batch.items() if key.endswith("_texts")]
    goals = batch["label"].tolist() if target else [None] * len(rows)
    return [[list(texts), goal] for texts, goal in zip(zip(*columns), goals)]


def compare(table, ours, tally):
    kind = f"tables, {table.kind}"
    try:
        rows, unused, skipped = expected(table)
    except Refused as reason:
        if "error" not in ours:
            raise Difference(f"{table.case()}: read, but expected to be refused: {reason}") from None
        tally.refused[kind, str(reason)] += 1
        return
    if "error" in ours:
        raise Difference(f"{table.case()}: refused: {ours['error']}")
    if [texts for texts, _ in ours["rows"]] != [texts for texts, _ in rows]:
        raise Difference(f"{table.case()}: texts {ours['rows']}, expected {rows}")
    for (_, mine), (_, theirs) in zip(ours["rows"], rows):
        if mine != theirs and not (mine is not None and theirs is not None and abs(mine - theirs) < 1e-6):
            raise Difference(f"{table.case()}: target {mine}, expected {theirs}")
    if sorted(ours["unused"]) != sorted(unused) or ours["skipped"][0][0] != skipped:
        raise Difference(f"{table.case()}: {ours['unused']}, {ours['skipped']}; expected {unused}, {skipped}")
    if ours["empty"] != sum(not field.strip() for texts, _ in rows for field in texts):
        raise Difference(f"{table.case()}: {ours['empty']} empty texts")
    tally.count(kind)
    tally.count("rows of tables", inputs=len(rows))


def batch(names, options, tally):
    """All tables in one call of read_rows; returns the differences by case."""
    tables = [Table(generators(name)[0], options.scratch / f"table{i}") for i, name in enumerate(names)]
    done = run(options.build / "tests/train/read_rows",
               input="".join(json.dumps(table.case()) + "\n" for table in tables))
    if done.returncode != 0:
        return {names[0]: f"read_rows ended with {done.returncode}: {done.stderr.strip()}"}
    differences = {}
    for name, table, answer in zip(names, tables, done.stdout.split("\n")):
        try:
            compare(table, json.loads(answer), tally)
        except Difference as difference:
            differences[name] = str(difference)
    return differences
