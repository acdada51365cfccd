"""Oracle of Unigram and byte-pair tokenizers: Hugging Face's tokenizers, on models trained here.

    python scripts/oracles/unigram.py                                  # writes to tests/oracles/tokenizer/
    python scripts/oracles/unigram.py --compare build/tests/models/tokenize_lines --data DATA

Packages: sentencepiece, protobuf, tokenizers, transformers, babel. The first form writes small tokenizers and their ids.
The second form trains models of up to 40,000 pieces, with SentencePiece's nmt_nfkc. It checks that PROGRAM gives identical ids
for the data folder's sentences and pairs, names in the languages of CLDR, a page of each script, and every code point.
"""

import argparse
import io
import json
import pathlib
import random
import sys
import tempfile
import unicodedata

import sentencepiece
from babel import Locale, localedata
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.decoders import Metaspace as MetaspaceDecoder
from tokenizers.models import BPE, Unigram
from tokenizers.normalizers import Precompiled, Replace, Sequence, Strip
from tokenizers.pre_tokenizers import ByteLevel, Metaspace, WhitespaceSplit
from tokenizers.pre_tokenizers import Sequence as PreSequence
from tokenizers.processors import RobertaProcessing, TemplateProcessing
from tokenizers.trainers import BpeTrainer

from transformers.convert_slow_tokenizer import bytes_to_unicode

import tokenizer
from texts import CORPUS
from tokenizer import FOLDER, code_points, data_sentences, differences

CLUSTERS = """\u00aa\u0301b|\uff21\u0301|\ufb01\u0308x|\u00b2\u20dd|\u2460\ufe0f|a\u0301\u0302|e\u0300|\u1100\u1161|\u00bd\u200d\u00bc|\r\n|\u0600\u00aa|\U0001f1e6\U0001f1e8
\u2581low|a\u2581b|\u2581\u2581a|\u2581|  two  spaces |a  b   c|\u00a0\u3000x|end  |tab\tnew\nline|\u00a8a|\u00b4 \u00b8|\u037a|\u0132\u01c4|\u3392\u33c2\u32c0|\ufdfa
the <mask> sat|the<mask>sat|I'm 's 'LL they've12 3rd's|a\n\n b|x \t y  |9\u0663\u00b2\u2167 \u01c5|'quoted'|x\u1c89 1\U0001ccf0 !\u1c89 x\u0301 1\u0663 !\u2460 x\u00e9 !\u20ac|a  <mask>  b|<mask> <mask>|<s> a </s>|\u00a0<mask>\u00a0|x <unk> y|\u4f60\u597d<mask>\u4e16"""


def texts():
    more = [part for line in CLUSTERS.split("\n") for part in line.split("|")]
    return tokenizer.texts() + more + ["".join(chr(c) for c in range(0x4e00, 0x4e00 + 70))]


def script_pages():
    """A page of each script: words of its letters and marks, with digits, signs and spaces."""
    scripts, drawn = {}, random.Random(5)
    for c in code_points():
        if unicodedata.category(c)[0] in "LM":
            scripts.setdefault(unicodedata.name(c, "?").split()[0].split("-")[0], []).append(c)
    common = [c for c in code_points() if unicodedata.category(c)[0] in "NPSZC" and unicodedata.category(c) != "Cn"]
    for name, letters in sorted(scripts.items()):
        page = []
        for _ in range(60):
            word = "".join(drawn.choice(letters) for _ in range(drawn.randint(1, 9)))
            sign = drawn.choice(common) if drawn.random() < 0.3 else ""
            page.append(drawn.choice([word + sign, sign + word, word + " " + sign, "a" + word, word + "\u0301"]))
        yield from (" ".join(page[i:i + 10]) for i in range(0, len(page), 10))


def locale_names():
    """Names of countries and languages in all languages of CLDR."""
    for identifier in localedata.locale_identifiers():
        locale = Locale.parse(identifier)
        if locale.territory is None:
            yield from ([str(name) for name in (*locale.territories.values(), *locale.languages.values())][:120])


def train(sentences, size, coverage, **rules):
    """The proto of a Unigram model."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=model, vocab_size=size, character_coverage=coverage,
        hard_vocab_limit=False, num_threads=1, minloglevel=2, max_sentence_length=20000, **rules)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto


def small_rules():
    """NFKC of some characters of the texts, and spaces: small enough to commit."""
    replaced = ("\u00aa\u00b2\u00bd\uff21\ufb01\ufb03\u2460\u2126"
                "\u212b\u1e9b\uff76\uff9e\u0132\u01c4\u00a8\u3392\ufdfa")
    rules = {c: unicodedata.normalize("NFKC", c) for c in replaced}
    rules |= {c: " " for c in "\t\n\r\u00a0\u3000\u200b\u2028\ufeff"} | {c: "" for c in "\x01\x02\x7f\u00ad"}
    rules |= {"e\u0301": "\u00e9", "a\u0301": "\u00e1", "\r\n": " ", "\uff76\uff9e": "\u30ac", "\u0939\u093f": "h"}
    return "".join(" ".join(f"{ord(c):X}" for c in key) + "\t" + " ".join(f"{ord(c):X}" for c in value) + "\n"
                   for key, value in sorted(rules.items()))


def xlm_roberta_pieces(proto):
    special = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    return special + [(piece.piece, piece.score) for piece in proto.pieces[3:]] + [("<mask>", 0.0)]


def xlm_roberta(proto):
    """The tokenizer of the published XLM-R models over these pieces."""
    built = Tokenizer(Unigram(xlm_roberta_pieces(proto), unk_id=3))
    built.normalizer = Precompiled(proto.normalizer_spec.precompiled_charsmap)
    built.pre_tokenizer = PreSequence([WhitespaceSplit(), Metaspace()])
    built.decoder = MetaspaceDecoder()
    built.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)])
    built.post_processor = TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return built


def spaces_kept(proto, scheme, split):
    """As transformers converts other SentencePiece models: white space is not split at, runs are joined."""
    built = xlm_roberta(proto)
    built.normalizer = Sequence([Precompiled(proto.normalizer_spec.precompiled_charsmap), Strip(left=False, right=True),
                                 Replace(Regex(" {2,}"), " "), Replace("low", "high")])
    built.pre_tokenizer = Metaspace(prepend_scheme=scheme, split=split)
    built.decoder = MetaspaceDecoder(prepend_scheme=scheme)
    return built


def small_proto():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rules.tsv"
        path.write_text(small_rules(), encoding="utf-8")
        return train(CORPUS + tokenizer.texts(), 420, 0.98, normalization_rule_tsv=str(path))


def small_models():
    proto = small_proto()
    return {"tiny-xlmr": xlm_roberta(proto), "tiny-first": spaces_kept(proto, "first", True),
            "tiny-never": spaces_kept(proto, "never", False)}


def train_bytes(sentences, size):
    """RoBERTa's vocabulary and merges."""
    built = Tokenizer(BPE())
    built.pre_tokenizer = ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    built.train_from_iterator(sentences, BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                                                    initial_alphabet=sorted(ByteLevel.alphabet())))
    return json.loads(built.to_str())["model"]


def roberta(model, add_prefix_space=False):
    merges = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]
    built = Tokenizer(BPE(model["vocab"], merges, continuing_subword_prefix="", end_of_word_suffix=""))
    built.pre_tokenizer = ByteLevel(add_prefix_space=add_prefix_space)
    built.decoder = ByteLevelDecoder()
    built.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)])
    built.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=add_prefix_space)
    return built


def word_ends():
    """Merges of a letter, a digit and a sign with each leading byte: ids show in which word a code point is."""
    characters = bytes_to_unicode()
    merges = [(sign, characters[byte]) for sign in "x1!" for byte in range(0xC2, 0xF5)]
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *characters.values(), *(a + b for a, b in merges)]
    return {"vocab": {piece: i for i, piece in enumerate(pieces)}, "merges": merges}


def small_bytes():
    """The committed pieces; learned anew only where there are none, as the trainer breaks ties at random."""
    path = FOLDER / "tiny-bpe.json"
    return json.loads(path.read_text())["model"] if path.exists() else train_bytes(CORPUS + tokenizer.texts(), 500)


def older_form(path):
    """As files before tokenizers 0.20: merges as text, no type of the model."""
    file = json.loads(path.read_text())
    file["model"]["merges"] = [" ".join(merge) for merge in file["model"]["merges"]]
    del file["model"]["type"]
    path.write_text(json.dumps(file, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def generate():
    model = small_bytes()
    write_cases("unigram.jsonl", small_models())
    write_cases("bpe.jsonl", {"tiny-bpe": roberta(model), "tiny-prefix": roberta(model, add_prefix_space=True),
                              "tiny-ends": roberta(word_ends())})
    older_form(FOLDER / "tiny-prefix.json")


def write_cases(name, models):
    with open(FOLDER / name, "w", encoding="utf-8") as out:
        for value in texts() + tokenizer.pairs():
            entry = {"text": value} if isinstance(value, str) else {"text": value[0], "pair": value[1]}
            for name, built in models.items():
                encoding = built.encode(value) if isinstance(value, str) else built.encode(*value)
                entry[name] = [encoding.ids, built.decode(encoding.ids)]
            out.write(json.dumps(entry) + "\n")
    for name, built in models.items():
        built.save(str(FOLDER / f"{name}.json"), pretty=False)


def values_of(data):
    rows = data_sentences(data)
    # In the middle of words, first, and behind characters with rules of their own.
    points = [f"{c} x{c}Y \u00c9{c}\u0323\u0301 {c}{c} \u00aa{c} \u00b2{c}a 1{c}2 !{c}" for c in code_points()]
    return {"sentences": [text for row in rows for text in row], "pairs": rows, "names of CLDR": list(locale_names()),
            "lines of the pages of scripts": list(script_pages()), "code points": points,
            "difficult texts": texts()}


def compare(program, data):
    values = values_of(data)
    corpus = values["sentences"][::4] + values["names of CLDR"][::3] + values["lines of the pages of scripts"]
    models = {}
    for coverage in (0.98, 0.9995):
        proto = train(corpus, 40000, coverage, normalization_rule_name="nmt_nfkc")
        models[f"XLM-R, coverage {coverage}"] = xlm_roberta(proto)
        models[f"spaces kept, coverage {coverage}"] = spaces_kept(proto, "always", True)
    model = train_bytes(corpus, 20000)
    models |= {"RoBERTa": roberta(model), "RoBERTa, prefix": roberta(model, add_prefix_space=True),
               "ends of RoBERTa's words": roberta(word_ends())}
    total = 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tokenizer.json"
        for name, built in models.items():
            built.save(str(path), pretty=False)
            for what, rows in values.items():
                found = differences(program, path, built, rows)
                print(f"{name}: {len(rows)} {what}: {len(found)} differ", flush=True)
                for value, theirs, ours in found[:5]:
                    print("   ", ascii(value), theirs, ours)
                total += len(found)
    print(f"{total} differences")
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", metavar="PROGRAM", help="build/tests/models/tokenize_lines")
    parser.add_argument("--data", type=pathlib.Path, help="folder with snli/ and stsb/")
    arguments = parser.parse_args()
    if arguments.compare:
        sys.exit(1 if compare(arguments.compare, arguments.data) else 0)
    generate()


if __name__ == "__main__":
    main()
