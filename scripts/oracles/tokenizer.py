"""Oracle of the tokenizer: Hugging Face's tokenizers (pip install tokenizers).

    python scripts/oracles/tokenizer.py --vocab DATA/vocab             # writes tests/oracles/tokenizer/
    python scripts/oracles/tokenizer.py --folders build/tests/models/tokenize_lines [--rounds 1000]
    python scripts/oracles/tokenizer.py --compare build/tests/models/tokenize_lines --data DATA [--time 5]

The first form needs sentence-transformers, the second transformers. The second compares random model folders with
AutoTokenizer. The third form checks that PROGRAM gives identical ids for every sentence of the data folder, alone,
as pairs and cut short, with both vocabularies, and for every code point; it lists the differences.
With --time it prints instead how many words a second PROGRAM and Hugging Face encode on one core.
"""

import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unicodedata

import tokenizer_folders
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import BPE, Unigram, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel, Metaspace
from tokenizers.processors import BertProcessing, RobertaProcessing, TemplateProcessing

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "oracles" / "tokenizer"
VOCABULARIES = ["bert-base-uncased", "mpnet-base"]

WORDS = """The quick brown fox jumps over the lazy dog|A man inspects the uniform of a figure.
unaffable|unwanted running|embeddings and tokenization|antidisestablishmentarianism|playing, played; plays!
don't can't we're I'm they've it's|do not|U.S.A. e.g. i.e.|$5.00 100% #1 @home a&b c*d|1,234,567.89|3.14159
hello(world)[x]{y}<z>|a-b_c/d\\e|"quoted" 'single' `tick`|...|?!|--|~^|=|+|under_score|CamelCase|ALLCAPS
http://example.com/path?query=1&x=y#z|name@example.org|C++20|x86-64|
caf\u00e9|cafe\u0301|CAF\u00c9|na\u00efve r\u00e9sum\u00e9|\u00c5ngstr\u00f6m|A\u030angstro\u0308m|Stra\u00dfe|STRA\u1e9eE|\u0130stanbul|\u0130|i\u0307|\u0131
\u01c5ungla|\ufb01nance|\ufb03|\u2126|\u212b|\u1e9b\u0323|q\u0307\u0323|q\u0323\u0307|\u0344|a\u0315\u0300\u05ae\u0062|\u1100\u1161\u11a8|\uac01\ud55c\uad6d\uc5b4
\u4f60\u597d\u4e16\u754c|abc\u4f60\u597ddef|\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8|\u30ac\u30ae\u30b0|\uff76\uff9e|\uf900\u2f800|\U00020000\U0002a6df|\U0002b820\U0002b920|\U0002f800|\u3400|\u3007
\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440|\u0439\u0451|\u03b1\u03b2\u03b3 \u0391\u0392\u0393|\u03a3\u03a3\u03a3|\u03ac\u03ad|\u1f00\u1f71|\u0645\u0631\u062d\u0628\u0627|\u05e9\u05b8\u05dc\u05d5\u05b9\u05dd|\u0939\u093f\u0928\u094d\u0926\u0940|\u0e44\u0e17\u0e22\u0e20\u0e32\u0e29\u0e32
\U0001f600|hi\U0001f44d\U0001f3fdthere|\U0001f468\u200d\U0001f469\u200d\U0001f467|\u2603\ufe0f|\u263a|\u2122\u00ae\u00a9|\u20ac100|\u00bd\u00b2\u00b9|\u2460|\u2116|\u2190\u2192
\u00a0nbsp\u00a0|\u2003em\u2003|\u3000wide\u3000|\u200bzero\u200bwidth|\u00adsoft\u00adhyphen|\ufeffbom|\u2028line\u2029para|\u0085nel|\u180emvs|\u202eright|\u2060joiner
\x00nul\x00|\x01\x02|a\x0bb\x0cc|a\x1cb\x1dc|a\x7fb|tab\tnew\nline\rreturn\r\nboth|\ufffd|a\ufffdb|\ufffe\uffff|\U0010ffff|\ue000x
\u2018curly\u2019 \u201cquotes\u201d|\u2013 \u2014 \u2026|\u00bfqu\u00e9?|\u00a1hola!|\u3001\u3002\u300c\u300d|\uff0c\uff01\uff1f|\u00b7|\u2e2e|\u055c|\u0964|\u1680ogham|\u166d
\u1c90\u10d0|\u13a0\uab70|\ua64a\u1c88|\U00010400\U00010428|\u1e00\u1e01|\ua7ae|\u2c2f\u2c5f|\U0001e900\U0001e922|\u0149|\u01f0|\u0390|\u1f80\u1f88"""

SPECIALS = """[CLS] a [SEP]|[MASK]|a [MASK] b|[UNK]|[PAD]|[cls]|[ SEP ]|a[SEP]b|[[SEP]]|[SEP
<s> a </s>|<mask>|the <mask> sat|the<mask>sat|  <mask>  |<pad>|<unk>|<S>|< s >|</s|<mask><mask>|<<s>>|\u00e9<mask>\u0301|\u4f60<mask>\u597d|a\t<mask>\nb
New York|new york|NEW  YORK|in New York City|newyork|foo|foobar|foo bar|(foo)|\u00e9foo|foo\u0301|foo_|foo-bar|Caf\u00e9Z\u00fcrich|cafezurich|CAFE\u0301ZURICH|<extra>|x<extra>y|<extra> z|overlap|overlapping|overlappingly"""


def texts():
    found = [part for block in (WORDS, SPECIALS) for line in block.split("\n") for part in line.split("|")]
    found += ["", " ", "  \t\n ", "a", "a" * 100, "a" * 101, "\u00e9" * 100, "\u00e9" * 101, "e\u0301" * 60]
    found += ["\u0300", "\u0300\u0301 a", "word " * 40, "\u4f60" * 101, "##ing", "#", "##", "###a", "b##ing"]
    return list(dict.fromkeys(found))


def pairs():
    found = texts()[:60]
    return [[a, b] for a, b in zip(found, reversed(found))] + [["", ""], ["a", ""], ["", "b c"]]


def read_vocab(path):
    return {line.rstrip("\r\n"): i for i, line in enumerate(open(path, encoding="utf-8", newline="\n"))}


def special_tokens(vocab):
    if "<s>" in vocab:
        return ["<s>", "<pad>", "</s>", "[UNK]", AddedToken("<mask>", lstrip=True, special=True)]
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def build(vocab, **normalizer):
    """The tokenizer of the published uncased models over `vocab`."""
    tokenizer = Tokenizer(WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(**normalizer)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = WordPieceDecoder(prefix="##")
    tokenizer.add_special_tokens(special_tokens(vocab))
    if "<s>" in vocab:
        tokenizer.post_processor = RobertaProcessing(
            ("</s>", vocab["</s>"]), ("<s>", vocab["<s>"]), trim_offsets=True, add_prefix_space=False)
    else:
        tokenizer.post_processor = TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[(name, vocab[name]) for name in ("[CLS]", "[SEP]")])
    return tokenizer


def small_vocab(tokenizer, head, tail):
    """Pieces of a published vocabulary that the texts need, some letters left out for [UNK]."""
    used = {i for text in texts() for i in tokenizer.encode(text, add_special_tokens=False).ids}
    pieces = [tokenizer.id_to_token(i) for i in sorted(used)]
    letters = [chr(c) for c in range(33, 127) if chr(c).lower() == chr(c) and chr(c) not in "qz~"]
    pieces += letters + ["##" + c for c in letters if c.isalnum() and c not in "xj"]
    order = head + [p for p in pieces if p not in head + tail + ["[UNK]"]] + tail
    return {piece: i for i, piece in enumerate(dict.fromkeys(order))}


def cased_tokenizer(vocab):
    """Everything off its usual setting: case and accents kept, BertProcessing, odd added tokens."""
    vocab = dict(vocab)
    for piece in ["The", "Caf\u00e9", "##\u00e9", "Stra\u00dfe", "NE", "##w", "York", "I", "\u00e9", "over", "##lapping"]:
        vocab.setdefault(piece, len(vocab))
    tokenizer = build(vocab, lowercase=False, strip_accents=False, handle_chinese_chars=False, clean_text=False)
    tokenizer.model.max_input_chars_per_word = 12
    tokenizer.post_processor = BertProcessing(("[SEP]", vocab["[SEP]"]), ("[CLS]", vocab["[CLS]"]))
    tokenizer.add_tokens([
        AddedToken("New York"),
        AddedToken("foo", single_word=True, normalized=False),
        AddedToken("overlap", normalized=False), AddedToken("overlapping", normalized=False),
        AddedToken("<extra>", rstrip=True, lstrip=True)])
    tokenizer.enable_truncation(24)
    return tokenizer


def lowered_tokenizer(vocab):
    """Added tokens that are looked for in the normalized text."""
    tokenizer = build(vocab)
    tokenizer.add_tokens([
        AddedToken("New York", single_word=True), AddedToken("Caf\u00e9Z\u00fcrich"), AddedToken("<EXTRA>", special=True, normalized=True)])
    return tokenizer


def stripping_tokenizers():
    """Of each kind, with added tokens that begin in the white space which another one strips."""
    letters = "axyn[]XYN"
    pieces = ["[UNK]"] + [prefix + letter for letter in letters for prefix in ("", "##")]
    wordpiece = Tokenizer(WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    wordpiece.normalizer, wordpiece.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    bpe = Tokenizer(BPE({piece: i for i, piece in enumerate(sorted(ByteLevel.alphabet()) + ["\u0120a"])}, [("\u0120", "a")]))
    bpe.pre_tokenizer = ByteLevel(add_prefix_space=False)
    unigram = Tokenizer(Unigram([(piece, -i - 1.0) for i, piece in enumerate(["<unk>", "\u2581", "\u2581a", *letters])], 0))
    unigram.pre_tokenizer = Metaspace(prepend_scheme="first")
    for tokenizer in (wordpiece, bpe, unigram):
        for verbatim, strips in (("X", {"rstrip": True}), ("Y", {"lstrip": True})):
            tokenizer.add_tokens([AddedToken(f"[{verbatim}]", normalized=False, **strips)])
        tokenizer.add_tokens([AddedToken(" y", normalized=False), AddedToken("\t", normalized=False),
                              AddedToken("[N]", normalized=True, rstrip=True), AddedToken(" n", normalized=True)])
        yield tokenizer


STRIPPED = ["a[X] y a", "a[X]  y a", "a[X] \u00a0 ya", "[X] y", " [X] y [X] a", "[X]\t a", "[X] \t  a", "[X]\t\t y", "a [Y] y",
            "a[X]  [Y]  a", "[X] [Y] y[Y]", "a[N] n a", "a[N]  na", "[N] n[N] y", "[X] n[N] n y", "a[N]\t n", "[X]", "[X] ", " y y"]


def generate_stripped(path):
    with open(path, "w", encoding="utf-8") as out:
        for tokenizer in stripping_tokenizers():
            ids = [encoding.ids for encoding in tokenizer.encode_batch(STRIPPED)]
            out.write(json.dumps({"tokenizer": json.loads(tokenizer.to_str()), "texts": STRIPPED, "ids": ids}) + "\n")


def case(value, tokenizers):
    entry = {"text": value} if isinstance(value, str) else {"text": value[0], "pair": value[1]}
    for name, tokenizer in tokenizers.items():
        encoding = tokenizer.encode(value) if isinstance(value, str) else tokenizer.encode(*value)
        entry[name] = encoding.ids
        if name == "tiny-bert":
            entry["decoded"] = tokenizer.decode(encoding.ids)
            entry["type_ids"] = encoding.type_ids
    return entry


def generate(vocab_folder):
    published = {name: build(read_vocab(vocab_folder / f"{name}.vocab.txt")) for name in VOCABULARIES}
    bert = small_vocab(published["bert-base-uncased"], ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], [])
    mpnet = small_vocab(published["mpnet-base"], ["<s>", "<pad>", "</s>", "<unk>", "[UNK]"], ["<mask>"])
    tiny = {"tiny-bert": build(bert), "tiny-mpnet": build(mpnet),
            "tiny-cased": cased_tokenizer(bert), "tiny-added": lowered_tokenizer(bert)}
    FOLDER.mkdir(exist_ok=True)
    for name, tokenizer in tiny.items():
        tokenizer.save(str(FOLDER / f"{name}.json"), pretty=False)
    with open(FOLDER / "cases.jsonl", "w", encoding="utf-8") as out:
        for value in texts() + pairs():
            out.write(json.dumps(case(value, tiny | published)) + "\n")
    generate_stripped(FOLDER / "stripped.jsonl")
    tokenizer_folders.generate(FOLDER / "folders.jsonl")
    settings = tokenizer_folders.sentence_settings(ROOT / "tests" / "oracles" / "bert")
    (FOLDER / "sentence_settings.json").write_text(json.dumps(settings) + "\n")
    (FOLDER / "word_characters.json").write_text(json.dumps(tokenizer_folders.word_characters()) + "\n")


def data_sentences(folder):
    """Rows of two sentences: SNLI, then STSB."""
    rows = []
    for line in open(folder / "snli" / "snli_dev.jsonl", encoding="utf-8"):
        row = json.loads(line)
        rows.append([row["sentence1"], row["sentence2"]])
    for split in ("train", "dev", "test"):
        with open(folder / "stsb" / f"stsb-en-{split}.csv", encoding="utf-8", newline="") as file:
            rows += [row[:2] for row in csv.reader(file)]
    return rows


def program_ids(program, model, values, max_length):
    command = [program, str(model)] + (["--max-length", str(max_length)] if max_length else [])
    text = "".join(json.dumps(value) + "\n" for value in values)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{program}: {done.stderr.strip()}")
    return [[int(i) for i in line.split()] for line in done.stdout.splitlines()]


def differences(program, model, tokenizer, values, max_length=0):
    """The values whose ids differ, with both results."""
    tokenizer.enable_truncation(max_length) if max_length else tokenizer.no_truncation()
    encodings = tokenizer.encode_batch([v if isinstance(v, str) else tuple(v) for v in values])
    ours = program_ids(program, model, values, max_length)
    assert len(ours) == len(values), (len(ours), len(values))
    return [(v, e.ids, o) for v, e, o in zip(values, encodings, ours) if e.ids != o]


def compare_data(program, data, model, tokenizer, name):
    rows = data_sentences(data)
    sentences = [text for row in rows for text in row]
    total = 0
    for what, values, length in (("sentences", sentences, 0), ("sentences, length 8", sentences, 8),
                                 ("pairs", rows, 0), ("pairs, length 16", rows, 16), ("pairs, length 11", rows, 11)):
        found = differences(program, model, tokenizer, values, length)
        print(f"{name}: {len(values)} {what}: {len(found)} differ")
        for value, theirs, ours in found[:5]:
            print("   ", repr(value), theirs, ours)
        total += len(found)
    return total


def seconds_of(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def compare_speed(program, data, rounds):
    """All sentences of the data folder at once, without truncation, the best of `rounds`."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ.update(TOKENIZERS_PARALLELISM="false", RINGLET_NUM_THREADS="1")
    sentences = [text for row in data_sentences(data) for text in row]
    words, lines = sum(len(text.split()) for text in sentences), "".join(json.dumps(t) + "\n" for t in sentences)
    for name in VOCABULARIES:
        path = data / "vocab" / f"{name}.vocab.txt"
        tokenizer = build(read_vocab(path))
        best = min(seconds_of(lambda: tokenizer.encode_batch(sentences)) for _ in range(rounds))
        ours = subprocess.run([program, path, "--time", str(rounds)], input=lines, check=True, text=True,
                              stdout=subprocess.PIPE).stdout.strip()
        print(f"{name}: {ours}, Hugging Face {1e-6 * words / best:.2f}", flush=True)


def code_points():
    return [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def around(c):
    """One code point alone, inside a word, before and after combining marks."""
    return f"{c} x{c}Y \u00c9{c}\u0323\u0301 {c}{c}"


def spell_vocab():
    """A vocabulary that spells every code point, so that ids show the normalized text exactly."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    for c in code_points():
        if unicodedata.category(c) != "Co" and c not in "\n\r\x85\u2028\u2029":
            pieces += [c, "##" + c]
    return {piece: i for i, piece in enumerate(pieces)}


def compare_code_points(program, model, tokenizer, name):
    found = differences(program, model, tokenizer, [around(c) for c in code_points()])
    differing = [value[0] for value, _, _ in found]
    assigned = [c for c in differing if unicodedata.category(c) != "Cn"]
    print(f"{name}: {len(code_points())} code points: {len(differing)} differ, "
          f"{len(assigned)} of them assigned in Unicode {unicodedata.unidata_version}")
    for c in differing:
        print(f"    U+{ord(c):04X} {unicodedata.category(c)} {unicodedata.name(c, 'not assigned')}")
    return len(assigned)


def compare(program, data):
    total = 0
    with tempfile.TemporaryDirectory() as folder:
        vocab = spell_vocab()
        path = pathlib.Path(folder) / "tokenizer.json"
        spelling = build(vocab)
        spelling.save(str(path), pretty=False)
        total += compare_code_points(program, path, spelling, "every code point a piece")
    for name in VOCABULARIES:
        path = data / "vocab" / f"{name}.vocab.txt"
        tokenizer = build(read_vocab(path))
        total += compare_data(program, data, path, tokenizer, name)
        total += compare_code_points(program, path, tokenizer, name)
    print(f"{total} differences")
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", type=pathlib.Path, help="folder with the two published vocab.txt")
    parser.add_argument("--compare", metavar="PROGRAM", help="build/tests/models/tokenize_lines")
    parser.add_argument("--data", type=pathlib.Path, help="folder with snli/, stsb/ and vocab/")
    parser.add_argument("--time", type=int, metavar="ROUNDS", help="words per second on one core, not ids")
    parser.add_argument("--folders", metavar="PROGRAM", help="build/tests/models/tokenize_lines, on random folders")
    parser.add_argument("--rounds", type=int, default=1000, help="random folders")
    arguments = parser.parse_args()
    if arguments.folders:
        sys.exit(1 if tokenizer_folders.compare(arguments.folders, arguments.rounds) else 0)
    if arguments.compare and arguments.data and arguments.time:
        return compare_speed(arguments.compare, arguments.data, arguments.time)
    if arguments.compare and arguments.data:
        sys.exit(1 if compare(arguments.compare, arguments.data) else 0)
    if not arguments.vocab:
        parser.error("expected --vocab FOLDER, --folders PROGRAM, or --compare PROGRAM --data FOLDER")
    generate(arguments.vocab)


if __name__ == "__main__":
    main()
