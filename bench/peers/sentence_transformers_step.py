"""The step of torch_step.py by Sentence Transformers itself: its tokenizer, model and SoftmaxLoss, timed.

Random weights from a transformers config and a vocabulary of made-up words, one token each, so that it needs
no download and each batch has exactly the lengths that torch_step.py and bench/throughput use. Tokenizing is
timed as `forward`, as in the Trainer without loader workers. Needs sentence-transformers.
"""

import argparse
import itertools
import random
import string
import tempfile

import torch
from sentence_transformers import SentenceTransformer, losses, models
from transformers import BertConfig, BertModel, BertTokenizerFast, MPNetConfig, MPNetModel, MPNetTokenizerFast

from encoder import SIZES
from lengths import Lengths, token_counts
from torch_step import make_optimizer, report, train_step


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=sorted(SIZES), default="mpnet-base")
    parser.add_argument("--batch", type=int, default=32, help="pairs per step")
    parser.add_argument("--steps", type=int, default=5, help="timed steps")
    parser.add_argument("--warmup", type=int, default=1, help="steps before, not timed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32", help="bf16 is autocast")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def make_encoder(model):
    """(SentenceTransformer with random weights, its words)."""
    kind, vocabulary, hidden, layers, heads, positions = SIZES[model]
    specials = (["<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"] if kind == "mpnet"
                else ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    words = ["".join(letters) for letters in itertools.islice(
        itertools.product(string.ascii_lowercase, repeat=4), vocabulary - len(specials))]
    pieces = {piece: i for i, piece in enumerate(specials + words)}
    bert, mpnet = (BertConfig, BertModel, BertTokenizerFast), (MPNetConfig, MPNetModel, MPNetTokenizerFast)
    make_config, make_model, make_tokenizer = mpnet if kind == "mpnet" else bert
    config = make_config(vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers,
                         num_attention_heads=heads, intermediate_size=4 * hidden, max_position_embeddings=positions,
                         layer_norm_eps=1e-5 if kind == "mpnet" else 1e-12)
    with tempfile.TemporaryDirectory() as folder:
        make_model(config, add_pooling_layer=False).save_pretrained(folder)
        make_tokenizer(vocab=pieces, do_lower_case=True).save_pretrained(folder)
        transformer = models.Transformer(folder, max_seq_length=384)
        transformer.auto_model.pooler = None
        encoder = SentenceTransformer(modules=[transformer, models.Pooling(hidden, "mean")], device="cpu")
    return encoder, words


def main():
    arguments = parse()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    encoder, words = make_encoder(arguments.model)
    loss = losses.SoftmaxLoss(encoder, encoder.get_embedding_dimension(), num_labels=3).train()
    optimizer = make_optimizer(loss)
    lengths, draw = Lengths(), random.Random(1)
    phases, tokens = [], [0, 0]
    for step in range(arguments.warmup + arguments.steps):
        columns = lengths.batch(step, arguments.batch)
        texts = [[" ".join(draw.choices(words, k=length - 2)) for length in column] for column in columns]
        labels = torch.tensor([draw.randrange(3) for _ in range(arguments.batch)])

        def whole_step(texts, labels, columns=columns):
            features = [encoder.preprocess(column) for column in texts]
            assert [f["input_ids"].shape[1] for f in features] == [max(column) for column in columns]
            return loss(features, labels)

        times, value = train_step(whole_step, optimizer, texts, labels, arguments.dtype == "bf16", loss.parameters())
        if step < arguments.warmup:
            continue
        phases.append(times)
        tokens = [a + b for a, b in zip(tokens, token_counts(columns))]
        print(f"  step {step}: {sum(times[:3]):.0f} ms, loss {value:.4f}", flush=True)
    report(arguments, phases, tokens, f"Sentence Transformers on PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
