"""The step of torch_step.py by Sentence Transformers itself: its tokenizer, model and SoftmaxLoss, timed.

Random weights from a transformers config and a vocabulary of made-up words, one token each, so that it needs
no download and each batch has exactly the lengths that torch_step.py and bench/throughput use. Tokenizing is
timed as `forward`, as in the Trainer without loader workers. Needs sentence-transformers.

`--strategy fsdp` under torchrun shards the loss by PyTorch's fully_shard, each layer a unit; rank r of n takes batch
step * n + r. On a CPU that goes over gloo, and each rank keeps to --threads processors of its own; with --device cuda
over nccl, and each has a GPU of its own.
"""

import datetime
import itertools
import os
import random
import string
import tempfile

import torch
import torch.distributed as dist
import transformers
from sentence_transformers import SentenceTransformer, losses, models
from sentence_transformers.util import batch_to_device
from transformers import BertConfig, BertModel, BertTokenizerFast, MPNetConfig, MPNetModel, MPNetTokenizerFast

from encoder import SIZES
from torch_step import parse, report, run_steps, use_device

DEADLINE = datetime.timedelta(minutes=10)  # of a wait for another rank
BACKENDS = {"cpu": "gloo", "cuda": "nccl"}


def make_encoder(model, device="cpu", attention="default"):
    """(SentenceTransformer with random weights, its words). `attention`: transformers' name of it."""
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
        tokenizer_of(make_tokenizer, pieces, folder).save_pretrained(folder)
        transformer = models.Transformer(folder, max_seq_length=384)
        if attention != "default":
            transformer.auto_model.set_attn_implementation(attention)
        transformer.auto_model.pooler = None
        encoder = SentenceTransformer(modules=[transformer, models.Pooling(hidden, "mean")], device=str(device))
    return encoder, words


def tokenizer_of(make_tokenizer, pieces, folder):
    if int(transformers.__version__.split(".")[0]) >= 5:
        return make_tokenizer(vocab=pieces, do_lower_case=True)
    vocabulary = os.path.join(folder, "vocab.txt")
    with open(vocabulary, "w", encoding="utf-8") as out:
        out.write("\n".join(pieces))
    return make_tokenizer(vocab_file=vocabulary, do_lower_case=True)


def make_texts(columns, words, draw):
    """Columns of sentences that are as many tokens long as asked for, the two special ones included."""
    return [[" ".join(draw.choices(words, k=length - 2)) for length in column] for column in columns]


def place(arguments):
    """(rank, ranks) as torchrun says; on a CPU this process keeps to processors of its own."""
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if arguments.strategy == "dp" and arguments.device == "cpu":
        raise SystemExit("--strategy dp: is nn.DataParallel, which is for GPUs: --device cuda")
    if (arguments.strategy in ("none", "dp")) != (ranks == 1):
        raise SystemExit(f"--strategy {arguments.strategy}: not on {ranks} rank(s)")
    if arguments.device == "cpu":
        local, allowed = int(os.environ.get("LOCAL_RANK", 0)), sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[local * arguments.threads:(local + 1) * arguments.threads])
    elif ranks > 1 and arguments.device != "cuda":
        raise SystemExit(f"--device {arguments.device}: not on {ranks} ranks; expected cuda, a GPU for each")
    return rank, ranks


def shard(loss, device):
    """ZeRO-3: every layer is a unit, what is left (embeddings, relative bias, classifier) the root's."""
    from torch.distributed.fsdp import fully_shard
    dist.init_process_group(BACKENDS[device.type], timeout=DEADLINE)
    mesh = dist.init_device_mesh(device.type, (dist.get_world_size(),))
    for layer in loss.model[0].auto_model.encoder.layer:
        fully_shard(layer, mesh=mesh)
    fully_shard(loss, mesh=mesh)


def main():
    arguments = parse(__doc__, strategy=(("none", "fsdp"), "none"),  # others than none under torchrun
                      attention=(("default", "flash_attention_2"), "default"))
    rank, ranks = place(arguments)
    device = use_device(arguments)
    encoder, words = make_encoder(arguments.model, device, arguments.attention)
    if arguments.compile:
        # Releases differ in whether auto_model is the module itself or a property that returns it.
        part = "model" if isinstance(getattr(type(encoder[0]), "auto_model", None), property) else "auto_model"
        setattr(encoder[0], part, torch.compile(getattr(encoder[0], part), dynamic=True))
    loss = losses.SoftmaxLoss(encoder, SIZES[arguments.model][2], num_labels=3).to(device).train()
    preprocess = getattr(encoder, "preprocess", None) or encoder.tokenize  # by its name before version 6
    if arguments.strategy == "fsdp":
        shard(loss, device)
    draw = random.Random(1 + rank)

    def make_batch(columns):
        texts = make_texts(columns, words, draw)
        return (columns, texts), torch.tensor([draw.randrange(3) for _ in range(arguments.batch)])

    def tokenized(batch, labels):
        columns, texts = batch
        features = [batch_to_device(preprocess(column), device) for column in texts]
        assert [f["input_ids"].shape[1] for f in features] == [max(column) for column in columns]
        return loss(features, labels)

    phases, tokens = run_steps(arguments, loss, tokenized, make_batch, device, rank, ranks)
    if rank == 0:
        report(arguments, phases, tokens, f"Sentence Transformers on PyTorch {torch.__version__}",
               strategy=arguments.strategy, devices=ranks)
    if ranks > 1:
        if device.type == "cuda":
            dist.barrier()  # the GPUs of others may still wait for this one's
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
