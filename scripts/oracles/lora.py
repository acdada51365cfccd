"""Writes tests/oracles/lora.safetensors: LoRA's factors of all query and value projections of the tiny
folders of bert.py and mpnet.py, and the embeddings with them, by PEFT (alpha / r = 2); and PEFT's folders of the same
adapters, tests/oracles/lora/{bert,mpnet}. `lora.py --compare BERT MPNET` encodes folders that ringlet has saved:
adapters, or models with the factors merged."""

import json
import pathlib
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from sentence_transformers import SentenceTransformer

from encoders import SENTENCES
from oracle import FOLDER, Oracle

RANK, ALPHA = 4, 8
TARGETS = {"bert": ("attention.self.query", "attention.self.value"), "mpnet": ("attention.attn.q", "attention.attn.v")}


def load(folder):
    return SentenceTransformer(str(folder), device="cpu").double().eval()


def load_saved(case, folder):
    if not (pathlib.Path(folder) / "adapter_config.json").exists():
        return load(folder)
    encoder = load(FOLDER / case)
    PeftModel.from_pretrained(encoder[0].auto_model, folder)  # in place
    return encoder.double().eval()


def encode(encoder):
    return encoder.encode(SENTENCES, convert_to_tensor=True).double()


def adapt(oracle, case, encoder):
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=list(TARGETS[case]), task_type="FEATURE_EXTRACTION")
    model = get_peft_model(encoder[0].auto_model, config, autocast_adapter_dtype=False)  # in place
    for name, adapted in encoder[0].auto_model.named_modules():
        if not name.endswith(TARGETS[case]):
            continue
        for part, layers in ("lora_A", adapted.lora_A), ("lora_B", adapted.lora_B):
            factor = layers["default"].weight
            factor.copy_(oracle.randn(*factor.shape, scale=0.2))
            oracle.add(case, **{f"{name}.{part}.weight": factor})
    oracle.add(case, embeddings=encode(encoder.double().eval()))
    save(model.float(), case)
    encoder.double()


def save(model, case):
    """PEFT's folder without its model card, and with the set of target_modules in order."""
    folder = FOLDER / "lora" / case
    model.peft_config["default"].base_model_name_or_path = case
    model.save_pretrained(folder)
    (folder / "README.md").unlink()
    config = json.loads((folder / "adapter_config.json").read_text())
    config["target_modules"].sort()
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    (folder / "adapter_model.safetensors").chmod(0o644)


if __name__ == "__main__":
    oracle = Oracle(11)
    with torch.no_grad():
        for case in TARGETS:
            encoder = load(FOLDER / case)
            plain = encode(encoder)
            adapt(oracle, case, encoder)
            print(case, "moved by", (encode(encoder) - plain).abs().max().item())
            if "--compare" in sys.argv:
                saved = load_saved(case, sys.argv[sys.argv.index("--compare") + 1 + list(TARGETS).index(case)])
                print(case, "off by", (encode(saved) - encode(encoder)).abs().max().item())
    oracle.save("lora.safetensors")
