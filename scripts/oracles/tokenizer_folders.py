"""Model folders for the tokenizer's oracle: which of a folder's files transformers' AutoTokenizer follows.

Used by tokenizer.py: `--vocab` writes folders.jsonl (the chosen cases), `--folders PROGRAM` compares
PROGRAM (build/tests/models/tokenize_lines) with AutoTokenizer on random folders.
"""

import contextlib
import io
import json
import os
import pathlib
import random
import subprocess
import tempfile

PIECES = """[PAD] [UNK] [CLS] [SEP] [MASK] the cat The caf\u00e9 cafe Caf\u00e9 Cafe \u4f60 a ##b ##\u4f60 x Foo foo < > mask mask> s
##s ##a <mask> <s> </s> <pad> [ ] MASK , ##oo f ##at \u0430 cats""".split()
TEXTS = ["the cat", "The Caf\u00e9 caf\u00e9 Cafe", "a\u4f60 Foo foo cats,foo", "[MASK] <mask> [mask] <MASK>", "the<mask>cat <s> a </s>",
         "at cat zz Foo,Foox New York", "x\x01x \u0301caf\u00e9\u0301", "a a the the cat cat x x foo foo", ""]
CLASSES = [None, "BertTokenizer", "BertTokenizerFast", "MPNetTokenizer", "MPNetTokenizerFast",
           "PreTrainedTokenizerFast", "TokenizersBackend"]


def token(content, **flags):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} | flags


def tokenizer_json(mpnet=False, normalizer=None, added=(), **changes):
    vocab = {piece: i for i, piece in enumerate(PIECES)}
    cls, sep = ("<s>", "</s>") if mpnet else ("[CLS]", "[SEP]")
    roles = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"] if mpnet else PIECES[:5]
    tokens = sorted([{"id": vocab[name]} | token(name) for name in roles] + list(added), key=lambda t: t["id"])
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens,
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                           "strip_accents": None, "lowercase": True} | (normalizer or {}),
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "RobertaProcessing" if mpnet else "BertProcessing", "sep": [sep, vocab[sep]],
                               "cls": [cls, vocab[cls]]} | ({"trim_offsets": True, "add_prefix_space": False} if mpnet else {}),
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100, "vocab": vocab}} | changes


VOCAB = "\n".join(PIECES) + "\n"
KEPT = {"lowercase": False, "strip_accents": False, "handle_chinese_chars": False}
LEFT = {"direction": "Left", "max_length": 6, "strategy": "LongestFirst", "stride": 0}
BERT, MPNET = {"model_type": "bert"}, {"model_type": "mpnet"}


def chosen():
    """Name and files, each of which one rule decides."""
    def folder(name, config=None, whole=tokenizer_json(normalizer=KEPT), model=BERT, **files):
        return name, {"config.json": model, "tokenizer_config.json": config, "tokenizer.json": whole} | files
    for name in CLASSES:
        named = {} if name is None else {"tokenizer_class": name}
        yield folder(f"{name}: keys absent", named)
        yield folder(f"{name}: do_lower_case false", named | {"do_lower_case": False})
        yield folder(f"{name}: every key", named | {"do_lower_case": True, "strip_accents": False, "tokenize_chinese_chars": False})
        yield folder(f"{name}: strip_accents null", named | {"do_lower_case": False, "strip_accents": None}, tokenizer_json())
        yield folder(f"{name}: vocab.txt", named | {"do_lower_case": False}, None, **{"vocab.txt": VOCAB})
    yield folder("no tokenizer_config.json")
    yield folder("no tokenizer_config.json, MPNet", model=MPNET)
    yield folder("no file names a class", {"do_lower_case": True}, model=None)
    yield folder("class of config.json", {"do_lower_case": True}, model=BERT | {"tokenizer_class": "PreTrainedTokenizerFast"})
    bert, file = {"tokenizer_class": "BertTokenizer"}, {"tokenizer_class": "TokenizersBackend"}
    yield folder("equal lines in vocab.txt, white space behind pieces", bert, None,
                 **{"vocab.txt": VOCAB.replace("cats", "the \n\ncats\t\ncat\n\n")})
    more = tokenizer_json(added=[{"id": 17} | token("Foo", special=False)])
    for side in (bert, file):
        name = side["tokenizer_class"]
        yield folder(f"{name}: truncation_side left", side | {"truncation_side": "left", "model_max_length": 6})
        yield folder(f"{name}: truncation of tokenizer.json, left", side | {"model_max_length": 6}, tokenizer_json(truncation=LEFT))
        yield folder(f"{name}: truncation of tokenizer.json, no model_max_length", side, tokenizer_json(truncation=LEFT))
        yield folder(f"{name}: roles", side | {"cls_token": "x", "sep_token": "foo", "unk_token": "a"})
        yield folder(f"{name}: a role without a piece", side | {"mask_token": "New York"})
        yield folder(f"{name}: added tokens of tokenizer.json", side, more)
        yield folder(f"{name}: added_tokens_decoder", side | {"added_tokens_decoder": {"3": token("[SEP]"), "17": token("cat")}}, more)
        yield folder(f"{name}: extra_special_tokens", side | {"extra_special_tokens": ["Foo"], "additional_special_tokens": ["cat"]})
        yield folder(f"{name}: additional_special_tokens", side | {"additional_special_tokens": ["Foo", "New York"]})
        yield folder(f"{name}: special_tokens_map.json", side | {"cls_token": "a"}, **{"special_tokens_map.json": {"cls_token": "x", "sep_token": {
            "content": "foo", "lstrip": False, "rstrip": False, "single_word": True, "normalized": False}}})
        yield folder(f"{name}: special_tokens_map.json beside added_tokens_decoder", side | {"added_tokens_decoder": {"3": token("[SEP]")}},
                     **{"special_tokens_map.json": {"cls_token": "x", "additional_special_tokens": ["Foo"]}})
        yield folder(f"{name}: added_tokens.json", side, **{"added_tokens.json": {"Foo": 17, "New York": 90}})
        yield folder(f"{name}: longest word", side, tokenizer_json(model=tokenizer_json()["model"] | {"max_input_chars_per_word": 2}))
        yield folder(f"{name}: control characters kept", side, tokenizer_json(normalizer={"clean_text": False}))
        yield folder(f"{name}: post-processor", side, tokenizer_json(post_processor={"type": "BertProcessing", "sep": ["x", 16], "cls": ["a", 13]}))


def word_characters():
    """Ranges of the code points that keep a single_word token beside them from being found."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_str(json.dumps(tokenizer_json(added=[{"id": 17} | token("Foo", single_word=True, special=False)])))
    points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    before, after = ([17 in e.ids for e in tokenizer.encode_batch([text(chr(c)) for c in points])]
                     for text in (lambda c: c + "Foo", lambda c: "Foo" + c))
    assert before == after
    ranges = []
    for c in (c for c, alone in zip(points, before) if not alone):
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    return ranges


SETTINGS = [{}, {"max_seq_length": 6}, {"tokenizer_args": {"model_max_length": 6}, "max_seq_length": 9},
            {"processor_kwargs": {"model_max_length": 6, "truncation_side": "left"}},
            {"tokenizer_args": {"do_lower_case": False}}, {"tokenizer_args": {"cls_token": "a"}},
            {"processing_kwargs": {"text": {"max_length": 6, "truncation": True}}, "max_seq_length": 9},
            {"processing_kwargs": {"common": {"max_length": 5}, "text": {"max_length": 9, "padding": "max_length"}}}]
SENTENCES = ["A Dog runs", "two cats play with a ball in the park and a man looks at them", ""]


def sentence_settings(model):
    """Sentence Transformers' embeddings of SENTENCES for each change to sentence_bert_config.json."""
    import shutil
    from sentence_transformers import SentenceTransformer
    found = []
    for change in SETTINGS:
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "model"
            shutil.copytree(model, copy)
            config = copy / "sentence_bert_config.json"
            config.write_text(json.dumps(json.loads(config.read_text()) | change))
            embeddings = SentenceTransformer(str(copy), device="cpu").encode(SENTENCES)
        found.append({"change": change, "embeddings": [[round(float(x), 6) for x in row[:8]] for row in embeddings]})
    return {"texts": SENTENCES, "cases": found}


def write(folder, files):
    for name, value in files.items():
        if value is not None:
            (folder / name).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def peer_ids(folder, texts=tuple(TEXTS)):
    """The ids of AutoTokenizer, cut as Sentence Transformers cuts; None where it refuses the folder."""
    from transformers import AutoTokenizer
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            tokenizer = AutoTokenizer.from_pretrained(str(folder))
            return [tokenizer(text, truncation="longest_first")["input_ids"] for text in texts]
    except Exception:  # whatever a class raises
        return None


def generate(path):
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    with open(path, "w", encoding="utf-8") as out:
        for name, files in chosen():
            with tempfile.TemporaryDirectory() as folder:
                write(pathlib.Path(folder), files)
                ids = peer_ids(folder)
            files = {file: value for file, value in files.items() if value is not None}
            out.write(json.dumps({"name": name, "files": files, "texts": TEXTS, "ids": ids}) + "\n")


def random_files(rng):
    """A folder with each setting there or not."""
    def maybe(value, odds=0.3):
        return value() if rng.random() < odds else None
    flag = lambda: rng.random() < 0.5
    flags = lambda: {"single_word": flag(), "lstrip": flag(), "rstrip": flag(), "normalized": flag(), "special": flag()}
    # tokenizers picks any of several tokens with one normalized text: these all differ.
    some = lambda: rng.choice(["Foo", "cat", "New York", "Caf\u00e9", "at", "x", "a", "the<", ",", "\u4f60", "Foox"])
    settings = {"tokenizer_class": rng.choice(CLASSES), "do_lower_case": maybe(flag, 0.5), "tokenize_chinese_chars": maybe(flag),
                "truncation_side": maybe(lambda: rng.choice(["left", "right"])), "model_max_length": maybe(lambda: rng.choice([5, 6, 9, 512, int(1e30)])),
                "additional_special_tokens": maybe(lambda: [some(), some()], 0.15), "extra_special_tokens": maybe(lambda: [some()], 0.1),
                "added_tokens_decoder": maybe(lambda: {str(i): token(some(), **flags()) for i in rng.sample(range(60), 3)}, 0.3)}
    config = {key: value for key, value in settings.items() if value is not None}
    if flag():
        config["strip_accents"] = rng.choice([None, True, False])
    for role in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"):
        if rng.random() < 0.1:
            content = rng.choice(["x", "a", "Foo", "[MASK]", "<mask>", "<s>", "[UNK]"])
            config[role + "_token"] = content if flag() else {"__type": "AddedToken"} | token(content, **flags())
    mpnet = flag()
    added = [{"id": PIECES.index(p)} | token(p, **flags()) for p in rng.sample(["Foo", "cat", "a", "x", ","], rng.choice([0, 0, 1, 2]))]
    if rng.random() < 0.2:
        added.append({"id": len(PIECES)} | token("New York", **flags()))
    normalizer = {"clean_text": flag(), "lowercase": flag(), "handle_chinese_chars": flag(), "strip_accents": rng.choice([None, True, False])}
    files = {"tokenizer_config.json": config if rng.random() < 0.9 else None,
             "config.json": rng.choice([BERT, MPNET, BERT, MPNET, None, BERT | {"tokenizer_class": rng.choice(CLASSES[1:])}]),
             "tokenizer.json": maybe(lambda: tokenizer_json(mpnet, normalizer, added, truncation=maybe(lambda: LEFT)), 0.8),
             "vocab.txt": maybe(lambda: VOCAB, 0.5), "added_tokens.json": maybe(lambda: {"Foo": 17, "New York": 90}, 0.2),
             "special_tokens_map.json": maybe(lambda: {"cls_token": rng.choice(["x", "[CLS]"]), "mask_token": token("<mask>", lstrip=True)}, 0.2)}
    if files["tokenizer.json"] is None:
        files["vocab.txt"] = VOCAB
    return files


def compare(program, rounds, seed=1):
    """Random folders: counts those with other ids, those only one side refuses, and prints them."""
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    rng = random.Random(seed)
    lines = "".join(json.dumps(text) + "\n" for text in TEXTS)
    counts = {"same": 0, "both refuse": 0, "peer alone refuses": 0, "refused here alone": 0, "different": 0}
    for _ in range(rounds):
        files = random_files(rng)
        with tempfile.TemporaryDirectory() as folder:
            write(pathlib.Path(folder), files)
            theirs = peer_ids(folder)
            done = subprocess.run([program, folder, "--as-saved"], input=lines, capture_output=True, text=True, check=False)
        ours = [[int(i) for i in line.split()] for line in done.stdout.splitlines()] if done.returncode == 0 else None
        kind = ("same" if ours == theirs and ours else "both refuse" if ours == theirs else "peer alone refuses" if theirs is None
                else "refused here alone" if ours is None else "different")
        counts[kind] += 1
        if kind in ("different", "refused here alone"):
            shown = {name: value for name, value in files.items() if name not in ("tokenizer.json", "vocab.txt") and value is not None}
            whole = files["tokenizer.json"] or {}
            shown["tokenizer.json"] = {k: whole.get(k) for k in ("normalizer", "truncation")} | {
                "added_tokens": [t for t in whole.get("added_tokens", []) if t["content"] in ("Foo", "cat", "a", "x", ",", "New York")]}
            print(kind, json.dumps(shown), done.stderr.strip())
            for text, a, b in zip(TEXTS, theirs, ours or []):
                if a != b:
                    print("   ", repr(text), a, b)
    print(counts)
    return counts["different"]
