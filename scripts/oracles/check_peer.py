"""Checks that the plain PyTorch encoder of bench/peers computes what the oracles say.

usage: python scripts/oracles/check_peer.py
"""

import json
import sys

import torch
from safetensors.torch import load_file

from oracle import FOLDER, ROOT

sys.path.insert(0, str(ROOT / "bench" / "peers"))
from encoder import Config, Encoder, SoftmaxLoss  # noqa: E402


def padded(ids, offsets):
    rows = [ids[a:b].long() for a, b in zip(offsets[:-1], offsets[1:])]
    return (torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=1),
            torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True))


def error(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def check(name, attention):
    folder, oracle = FOLDER / name, load_file(FOLDER / f"{name}.safetensors")
    config = json.loads((folder / "config.json").read_text())
    model = Encoder(Config(name, config["vocab_size"], config["hidden_size"], config["num_hidden_layers"],
                           config["num_attention_heads"], config["max_position_embeddings"], 0.0, attention))
    weights = {key: value for key, value in load_file(folder / "model.safetensors").items() if "pooler" not in key}
    model.load_state_dict(weights)
    loss = SoftmaxLoss(model, config["hidden_size"])
    for part in ("weight", "bias"):
        getattr(loss.classifier, part).data.copy_(oracle[f"softmax_loss/classifier.{part}"])
    with torch.no_grad():
        ids, mask = padded(oracle["forward/ids"], oracle["forward/cu_seqlens"])
        forward = error(model(ids, mask)[mask.bool()], oracle["forward/last_hidden_state"])
    value = loss([padded(oracle[f"batch0/{c}_ids"], oracle[f"batch0/{c}_cu_seqlens"]) for c in "uv"],
                 oracle["batch0/labels"])
    value.backward()
    gradients = {key.removeprefix("model."): p.grad for key, p in loss.named_parameters()}
    largest = max(g.abs().max() for g in gradients.values())
    worst = max((error(g, oracle[f"softmax_loss.grad/{key}"]), key) for key, g in gradients.items()
                if oracle[f"softmax_loss.grad/{key}"].abs().max() > 1e-6 * largest)
    print(f"{name} {attention}: forward {forward:.1e}, loss {error(value, oracle['softmax_loss/loss']):.1e}, "
          f"worst gradient {worst[0]:.1e} ({worst[1]})")
    assert forward < 1e-5 and worst[0] < 1e-4


if __name__ == "__main__":
    for arguments in (("bert", "eager"), ("bert", "sdpa"), ("mpnet", "eager"), ("mpnet", "sdpa")):
        check(*arguments)
