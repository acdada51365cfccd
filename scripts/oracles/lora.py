"""Writes tests/oracles/lora.safetensors: LoRA's factors of all query and value projections of the tiny
folders of bert.py and mpnet.py, and the embeddings with them, by layers beside the frozen ones (alpha / r = 2).
`lora.py --compare BERT MPNET` encodes folders that ringlet has saved with those factors merged."""

import sys

import torch
from sentence_transformers import SentenceTransformer

from encoders import SENTENCES
from oracle import FOLDER, Oracle

RANK, ALPHA = 4, 8
TARGETS = {"bert": ("attention.self.query", "attention.self.value"), "mpnet": ("attention.attn.q", "attention.attn.v")}


def load(folder):
    return SentenceTransformer(str(folder), device="cpu").double().eval()


def encode(encoder):
    return encoder.encode(SENTENCES, convert_to_tensor=True).double()


def adapt(oracle, case, encoder):
    for name, linear in encoder[0].auto_model.named_modules():
        if not name.endswith(TARGETS[case]):
            continue
        a = oracle.randn(RANK, linear.in_features, scale=0.2)
        b = oracle.randn(linear.out_features, RANK, scale=0.2)
        oracle.add(case, **{f"{name}.lora_A.weight": a, f"{name}.lora_B.weight": b})
        linear.register_forward_hook(lambda _, x, y, a=a, b=b: y + x[0] @ a.T @ b.T * (ALPHA / RANK))


if __name__ == "__main__":
    oracle = Oracle(11)
    with torch.no_grad():
        for case in TARGETS:
            encoder = load(FOLDER / case)
            plain = encode(encoder)
            adapt(oracle, case, encoder)
            oracle.add(case, embeddings=encode(encoder))
            print(case, "moved by", (encode(encoder) - plain).abs().max().item())
            if "--compare" in sys.argv:
                merged = encode(load(sys.argv[sys.argv.index("--compare") + 1 + list(TARGETS).index(case)]))
                print(case, "off by", (merged - encode(encoder)).abs().max().item())
    oracle.save("lora.safetensors")
