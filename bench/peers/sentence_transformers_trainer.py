"""Steps of Sentence Transformers' own Trainer, timed: alone, or as DDP under torchrun.

    python bench/peers/sentence_transformers_trainer.py --model minilm-l6
    torchrun --nproc-per-node 2 bench/peers/sentence_transformers_trainer.py --strategy ddp --model minilm-l6

Model, texts and batches are those of sentence_transformers_step.py. A step lasts from the end of the one before
to its own, so its batch's tokenizing counts. Needs sentence-transformers, datasets and accelerate.
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
from sentence_transformers_step import DEADLINE, make_encoder, make_texts, parse, place
from torch_step import report, use_device

try:  # where version 6 keeps it; before it lay in the package itself
    from sentence_transformers.base.sampler import DefaultBatchSampler
except ImportError:
    from sentence_transformers.sampler import DefaultBatchSampler


class InOrder(DefaultBatchSampler):
    def __init__(self, dataset, **settings):
        super().__init__(SequentialSampler(dataset), **settings)


class Clock(TrainerCallback):
    """When each step ended: (wall, processor) seconds."""

    def __init__(self):
        self.ends = []

    def on_step_end(self, *_, **__):
        self.ends.append((time.perf_counter(), time.process_time()))

    def steps(self, warmup):
        """Milliseconds of each step after the first `warmup`."""
        return [[1e3 * (b - a) for a, b in zip(before, after)]
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
        learning_rate=2e-5, weight_decay=0.01, max_grad_norm=1.0, bf16=arguments.dtype == "bf16", use_cpu=True,
        ddp_backend="gloo" if arguments.strategy == "ddp" else None, ddp_timeout=int(DEADLINE.total_seconds()),
        batch_sampler=InOrder, dataloader_pin_memory=False, report_to="none", save_strategy="no",
        logging_strategy="no", disable_tqdm=True)


def main():
    arguments = parse(__doc__, ("none", "ddp"))
    if arguments.device != "cpu" or arguments.compile:
        raise SystemExit("the Trainer is measured on a CPU, as it is")
    if arguments.warmup < 1:
        raise SystemExit("--warmup: at least 1, as a step is timed from the end of the one before")
    rank, ranks = place(arguments)
    use_device(arguments)
    encoder, words = make_encoder(arguments.model)
    loss = losses.SoftmaxLoss(encoder, encoder.get_embedding_dimension(), num_labels=3)
    lengths, clock, widths = Lengths(arguments.histogram), Clock(), []
    batches = [lengths.batch(k, arguments.batch) for k in range((arguments.warmup + arguments.steps) * ranks)]
    loss.register_forward_pre_hook(
        lambda _, inputs: widths.append([column["input_ids"].shape[1] for column in inputs[0]]))
    with tempfile.TemporaryDirectory() as folder:
        trainer = SentenceTransformerTrainer(model=encoder, args=settings(arguments, folder), loss=loss,
                                             train_dataset=make_dataset(batches, words), callbacks=[clock])
        trainer.train()
    assert widths == [[max(column) for column in columns] for columns in batches[rank::ranks]]
    if rank == 0:
        timed = batches[arguments.warmup * ranks:]
        report(arguments, clock.steps(arguments.warmup), [sum(n) for n in zip(*map(token_counts, timed))],
               f"Sentence Transformers' Trainer on PyTorch {torch.__version__}", ("step", "processor"),
               arguments.strategy, ranks)


if __name__ == "__main__":
    main()
