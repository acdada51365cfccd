"""Writes tests/oracles/modules/, the parts of folders that modules after the pooling add, and
tests/oracles/modules.safetensors, embeddings of the sentences by the encoders of bert.py and mpnet.py with them."""

import pathlib
import shutil
import tempfile

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Dense, Dropout, LayerNorm, Normalize
from torch import nn

from oracle import FOLDER, Oracle
from texts import SENTENCES

MODULES = FOLDER / "modules"


def chains():
    """By name: the folder with the transformer, the modules after its pooling."""
    residual = Dense(40, 24, activation_function=nn.GELU(), use_residual=True)
    return {
        "dense_tanh_normalize": ("bert", [Dense(48, 20), Normalize()]),
        "projection": ("mpnet", [Normalize(), Dense(32, 8, bias=False, activation_function=nn.Identity())]),
        "every": ("mpnet", [Dense(32, 40, activation_function=nn.ReLU()), LayerNorm(40), Dropout(0.3), residual,
                            Dense(24, 24, activation_function=nn.Sigmoid(), use_residual=True), Normalize()]),
    }


def draw_weights(oracle, modules):
    with torch.no_grad():
        for module in modules:
            for name, parameter in module.named_parameters():
                mean = 1.0 if name == "norm.weight" else 0.0
                parameter.copy_(mean + oracle.randn(*parameter.shape, scale=0.3))


def encoder_with(name, modules):
    own = list(SentenceTransformer(str(FOLDER / name), device="cpu"))[:2]
    return SentenceTransformer(modules=own + modules, device="cpu")


def save_modules(encoder, target):
    """What the library writes, without the transformer that another folder has."""
    with tempfile.TemporaryDirectory() as parent:
        encoder.save_pretrained(parent, create_model_card=False)
        target.mkdir(parents=True)
        for path in [pathlib.Path(parent) / "modules.json", *sorted(pathlib.Path(parent).glob("[2-9]_*"))]:
            (shutil.copytree if path.is_dir() else shutil.copy)(path, target / path.name)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


def embeddings(encoder):
    return encoder.double().eval().encode(SENTENCES, convert_to_tensor=True).double()


def main():
    shutil.rmtree(MODULES, ignore_errors=True)
    oracle = Oracle(7)
    for name, (transformer, modules) in chains().items():
        draw_weights(oracle, modules)
        encoder = encoder_with(transformer, modules)
        save_modules(encoder, MODULES / name)
        oracle.add(name, embeddings=embeddings(encoder))
    oracle.save("modules.safetensors")


if __name__ == "__main__":
    main()
