"""Steps of Sentence Transformers' own Trainer, timed: alone, as DDP under torchrun, or as DP of several GPUs.

    python bench/peers/sentence_transformers_trainer.py --model minilm-l6
    torchrun --nproc-per-node 2 bench/peers/sentence_transformers_trainer.py --strategy ddp --model minilm-l6
    CUDA_VISIBLE_DEVICES=0,1 python bench/peers/sentence_transformers_trainer.py --device cuda --strategy dp

Model, texts and batches are those of sentence_transformers_step.py. A step lasts from the end of the one before
to its own, on a GPU by its clock, so its batch's tokenizing counts. A process that nobody launched takes all GPUs
that it sees: one for `none`, several for `dp`, which is nn.DataParallel. Needs sentence-transformers, datasets and
accelerate.
"""

import random
import tempfile
import time

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments, losses
from torch.utils.data import SequentialSampler
from transformers import TrainerCallback

from lengths import Lengths, token_counts
from sentence_transformers_step import BACKENDS, DEADLINE, make_encoder, make_texts, place
from torch_step import milliseconds, parse, report, time_on, use_device

try:  # where version 6 keeps it; before it lay in the package itself
    from sentence_transformers.base.sampler import DefaultBatchSampler
except ImportError:
    from sentence_transformers.sampler import DefaultBatchSampler


class InOrder(DefaultBatchSampler):
    def __init__(self, dataset, **settings):
        super().__init__(SequentialSampler(dataset), **settings)


class Clock(TrainerCallback):
    """When each step ended, on the device and in processor seconds."""

    def __init__(self, device):
        self.device, self.ends = device, []

    def on_step_end(self, *_, **__):
        self.ends.append((time_on(self.device), time.process_time()))

    def steps(self, warmup):
        """Milliseconds of each step after the first `warmup`."""
        return [[milliseconds(before[0], after[0]), 1e3 * (after[1] - before[1])]
                for before, after in zip(self.ends[warmup - 1:], self.ends[warmup:])]


def make_dataset(batches, words):
    draw = random.Random(1)
    rows = {"sentence1": [], "sentence2": [], "label": []}
    for columns in batches:
        for name, texts in zip(rows, make_texts(columns, words, draw)):
            rows[name] += texts
        rows["label"] += [draw.randrange(3) for _ in columns[0]]
    return Dataset.from_dict(rows)


def settings(arguments, folder):
    return SentenceTransformerTrainingArguments(
        output_dir=folder, max_steps=arguments.warmup + arguments.steps, per_device_train_batch_size=arguments.batch,
        learning_rate=2e-5, weight_decay=0.01, max_grad_norm=1.0, bf16=arguments.dtype == "bf16",
        use_cpu=arguments.device == "cpu", dataloader_pin_memory=arguments.device != "cpu",
        ddp_backend=BACKENDS[arguments.device] if arguments.strategy == "ddp" else None,
        ddp_timeout=int(DEADLINE.total_seconds()), batch_sampler=InOrder, report_to="none", save_strategy="no",
        logging_strategy="no", disable_tqdm=True)


def replicas(arguments):
    """How many devices the Trainer of this process takes: a rank one, else all GPUs."""
    seen = torch.cuda.device_count() if arguments.device == "cuda" and arguments.strategy != "ddp" else 1
    if (arguments.strategy == "dp") != (seen > 1):
        raise SystemExit(f"--strategy {arguments.strategy}: not on {seen} GPU(s); CUDA_VISIBLE_DEVICES says which are "
                         "seen, and the Trainer takes them all")
    return seen


def main():
    arguments = parse(__doc__, strategy=(("none", "dp", "ddp"), "none"))
    if arguments.device not in BACKENDS or arguments.compile:
        raise SystemExit("the Trainer is measured as it is, with --device cpu or --device cuda")
    if arguments.warmup < 1:
        raise SystemExit("--warmup: at least 1, as a step is timed from the end of the one before")
    rank, ranks = place(arguments)
    device = use_device(arguments)
    size = arguments.batch * replicas(arguments)
    encoder, words = make_encoder(arguments.model, device)
    loss = losses.SoftmaxLoss(encoder, encoder.get_embedding_dimension(), num_labels=3)
    lengths, clock, widths = Lengths(arguments.histogram), Clock(device), []
    batches = [lengths.batch(k, size) for k in range((arguments.warmup + arguments.steps) * ranks)]

    def look(module, inputs):
        assert isinstance(module.model, torch.nn.DataParallel) == (arguments.strategy == "dp")
        widths.append([column["input_ids"].shape[1] for column in inputs[0]])

    loss.register_forward_pre_hook(look)
    with tempfile.TemporaryDirectory() as folder:
        trainer = SentenceTransformerTrainer(model=encoder, args=settings(arguments, folder), loss=loss,
                                             train_dataset=make_dataset(batches, words), callbacks=[clock])
        trainer.train()
    assert widths == [[max(column) for column in columns] for columns in batches[rank::ranks]]
    if rank == 0:
        timed = batches[arguments.warmup * ranks:]
        report(arguments, clock.steps(arguments.warmup), [sum(n) for n in zip(*map(token_counts, timed))],
               f"Sentence Transformers' Trainer on PyTorch {torch.__version__}", ("step", "processor"),
               arguments.strategy, ranks * size // arguments.batch)


if __name__ == "__main__":
    main()
