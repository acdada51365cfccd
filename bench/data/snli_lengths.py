"""Writes snli_lengths.json: how many SNLI dev pairs have which token lengths, specials included.

usage: python bench/data/snli_lengths.py snli_dev.jsonl mpnet-base.vocab.txt   (needs `tokenizers`)
"""

import collections
import json
import pathlib
import sys

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers


def main(rows_path, vocabulary_path):
    pieces = pathlib.Path(vocabulary_path).read_text(encoding="utf-8").splitlines()
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rows = [json.loads(line) for line in open(rows_path, encoding="utf-8")]
    columns = [[len(e.ids) + 2 for e in tokenizer.encode_batch([row[key].strip() for row in rows])]
               for key in ("sentence1", "sentence2")]
    counts = collections.Counter(zip(*columns))
    total = sum(map(sum, columns))
    lines = ",\n".join(", ".join(map(json.dumps, chunk)) for chunk in chunked(
        [[*lengths, count] for lengths, count in sorted(counts.items())], 10))
    head = json.dumps({"source": "SNLI 1.0 dev, labelled pairs", "vocabulary": "mpnet-base", "pairs": len(rows),
                       "mean_tokens_per_pair": round(total / len(rows), 4),
                       "columns": ["premise", "hypothesis", "count"]}, indent=1)
    text = f'{head[:-2]},\n "lengths": [\n{lines}\n]}}\n'
    json.loads(text)
    (pathlib.Path(__file__).parent / "snli_lengths.json").write_text(text, encoding="utf-8")


def chunked(items, size):
    return [items[i:i + size] for i in range(0, len(items), size)]


if __name__ == "__main__":
    main(*sys.argv[1:])
