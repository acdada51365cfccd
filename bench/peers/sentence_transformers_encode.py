"""Sentence Transformers' encode of a text file, a sentence a line, timed without loading: prints a JSON line."""

import argparse
import json
import time

import numpy
import torch
from sentence_transformers import SentenceTransformer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input", help="a sentence a line")
    parser.add_argument("--model", required=True, metavar="FOLDER")
    parser.add_argument("--output", required=True, metavar="FILE.npy")
    parser.add_argument("--batch-size", type=int, default=32, help="their default")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    encoder = SentenceTransformer(arguments.model, device="cpu")
    if arguments.dtype == "bf16":
        encoder = encoder.bfloat16()
    with open(arguments.input, encoding="utf-8") as lines:
        texts = [line.rstrip("\n") for line in lines]
    encoder.encode(texts[:arguments.batch_size])
    start = time.perf_counter()
    embeddings = encoder.encode(texts, batch_size=arguments.batch_size, show_progress_bar=False,
                                convert_to_tensor=True)
    seconds = time.perf_counter() - start
    numpy.save(arguments.output, embeddings.float().numpy())
    print(json.dumps({"texts": len(texts), "seconds": seconds, "texts_per_s": len(texts) / seconds}))


if __name__ == "__main__":
    main()
