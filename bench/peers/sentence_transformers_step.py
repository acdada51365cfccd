"""The step of torch_step.py by Sentence Transformers itself: its tokenizer, model and SoftmaxLoss, timed.

Random weights from a transformers config and a vocabulary of made-up words, one token each, so that it needs
no download and each batch has exactly the lengths that torch_step.py and bench/throughput use. Tokenizing is
timed as `forward`, as in the Trainer without loader workers. Needs sentence-transformers.

`--strategy fsdp` under torchrun shards the loss by PyTorch's fully_shard over gloo, each layer a unit; rank r of
n takes batch step * n + r. Each rank keeps to --threads processors of its own.
"""

import argparse
import datetime
import itertools
import os
import random
import string
import tempfile

import torch
import torch.distributed as dist
from sentence_transformers import SentenceTransformer, losses, models
from transformers import BertConfig, BertModel, BertTokenizerFast, MPNetConfig, MPNetModel, MPNetTokenizerFast

from encoder import SIZES
from lengths import Lengths, token_counts
from torch_step import make_optimizer, report, train_step


DEADLINE = datetime.timedelta(minutes=10)  # of a wait for another rank


def parse(description, strategies):
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--strategy", choices=strategies, default="none", help="others than none under torchrun")
    parser.add_argument("--model", choices=sorted(SIZES), default="mpnet-base")
    parser.add_argument("--batch", type=int, default=32, help="pairs per device and step")
    parser.add_argument("--steps", type=int, default=5, help="timed steps")
    parser.add_argument("--warmup", type=int, default=1, help="steps before, not timed")
    parser.add_argument("--threads", type=int, default=1, help="of each device")
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


def make_texts(columns, words, draw):
    """Columns of sentences that are as many tokens long as asked for, the two special ones included."""
    return [[" ".join(draw.choices(words, k=length - 2)) for length in column] for column in columns]


def place(arguments):
    """(rank, ranks) as torchrun says; this process keeps to processors of its own."""
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if (arguments.strategy == "none") != (ranks == 1):
        raise SystemExit(f"--strategy {arguments.strategy}: not on {ranks} rank(s)")
    local, allowed = int(os.environ.get("LOCAL_RANK", 0)), sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, allowed[local * arguments.threads:(local + 1) * arguments.threads])
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    return rank, ranks


def shard(loss):
    """ZeRO-3: every layer is a unit, what is left (embeddings, relative bias, classifier) the root's."""
    from torch.distributed.fsdp import fully_shard
    dist.init_process_group("gloo", timeout=DEADLINE)
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in loss.model[0].auto_model.encoder.layer:
        fully_shard(layer, mesh=mesh)
    fully_shard(loss, mesh=mesh)


def main():
    arguments = parse(__doc__, ("none", "fsdp"))
    rank, ranks = place(arguments)
    encoder, words = make_encoder(arguments.model)
    loss = losses.SoftmaxLoss(encoder, encoder.get_embedding_dimension(), num_labels=3).train()
    if arguments.strategy == "fsdp":
        shard(loss)
    optimizer = make_optimizer(loss)
    lengths, draw = Lengths(), random.Random(1 + rank)
    phases, tokens = [], [0, 0]
    for step in range(arguments.warmup + arguments.steps):
        columns = lengths.batch(step * ranks + rank, arguments.batch)
        texts = make_texts(columns, words, draw)
        labels = torch.tensor([draw.randrange(3) for _ in range(arguments.batch)])

        def whole_step(texts, labels, columns=columns):
            features = [encoder.preprocess(column) for column in texts]
            assert [f["input_ids"].shape[1] for f in features] == [max(column) for column in columns]
            return loss(features, labels)

        times, value = train_step(whole_step, optimizer, texts, labels, arguments.dtype == "bf16", loss.parameters())
        if step < arguments.warmup:
            continue
        phases.append(times)
        for other in range(ranks):
            counts = token_counts(lengths.batch(step * ranks + other, arguments.batch))
            tokens = [a + b for a, b in zip(tokens, counts)]
        if rank == 0:
            print(f"  step {step}: {sum(times[:-1]):.0f} ms, loss {value:.4f}", flush=True)
    if rank == 0:
        report(arguments, phases, tokens, f"Sentence Transformers on PyTorch {torch.__version__}",
               strategy=arguments.strategy, devices=ranks)
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
