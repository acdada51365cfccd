"""Pipelines and tensor parallelism, modelled: the bubble of a schedule, GPipe's speed-up, Megatron-LM's rate.

scaling.py prints the rows of published tables beside these. Times are seconds, sizes bytes.
"""
import dataclasses

HALF = 2  # bytes of an activation or a gradient in f16
ALL_REDUCES = 6  # of a layer and micro-batch: two each in forward, in its recomputation and in backward


def bubble(schedule, ranks, micro_batches, chunks=1, weights=1 / 3):
    """The share of a step in which ranks wait. `weights` is the part of a micro-batch's time that the gradients of
    weights take: the zero-bubble schedules fill the bubble with it."""
    per_rank = {"1F1B": 1, "1F1B-I": 1 / chunks, "ZB-H1": 1 - 2 * weights, "ZB-H2": 1 - 3 * weights}[schedule]
    idle = (ranks - 1) * per_rank
    return idle / (micro_batches + idle)


def weights_of(rate, ranks, micro_batches):
    """The part of a micro-batch's time that explains the bubble `rate` of ZB-H1."""
    idle = rate * micro_batches / (1 - rate)
    return (1 - idle / (ranks - 1)) / 2


def gpipe_rate(stages, micro_batches):
    """Steps per unit of time of GPipe with recomputation, forward : recomputation : backward = 1 : 1 : 2. A stage
    recomputes its first micro-batch while it waits, so only forward and backward are in the bubble."""
    return stages * micro_batches / (4 * micro_batches + 3 * (stages - 1))


@dataclasses.dataclass
class Transformer:
    """A decoder with full recomputation, as Megatron-LM trains it."""
    hidden: int
    layers: int
    length: int
    vocabulary: int

    def parameters(self):
        return 12 * self.layers * self.hidden ** 2 + self.hidden * (self.vocabulary + self.length)

    def flops(self, sequences):
        """Of a step: equation (3) of Narayanan et al. 2021."""
        s, h, layers = self.length, self.hidden, self.layers
        return 96 * sequences * s * layers * h * h * (1 + s / (6 * h) + self.vocabulary / (16 * layers * h))


@dataclasses.dataclass
class Mesh:
    gpus: int
    tensor: int
    pipe: int
    chunks: int  # stages of a GPU
    micro: int  # sequences of a micro-batch
    batch: int  # sequences of a step

    def data(self):
        return self.gpus // (self.tensor * self.pipe)

    def slots(self):
        """A step of a GPU in times of a micro-batch, the bubble included."""
        return self.batch / (self.data() * self.micro) + (self.pipe - 1) / self.chunks

    def exposed(self, model, link):
        """Seconds of a micro-batch and of a step in which a GPU communicates and does not compute."""
        message = HALF * self.micro * model.length * model.hidden
        reduces = ALL_REDUCES * model.layers / self.pipe * link.collective(self.tensor, message, 2)
        # Each GPU of a tensor group sends its part of a message between stages, on its share of the node's adapters.
        sends = 2 * self.chunks * message / self.tensor / (link.node_rate / link.node) if self.pipe > 1 else 0
        # The replicas of a tensor rank form a ring; the rings of a node share its adapters.
        rings = dataclasses.replace(link, node=link.node // self.tensor, node_rate=link.node_rate / self.tensor)
        gradients = HALF * model.parameters() / (self.tensor * self.pipe)
        return reduces + sends, rings.collective(self.data(), gradients, 2)

    def seconds(self, model, link, rate):
        """A step, if a GPU computes `rate` operations per second."""
        micro, step = self.exposed(model, link)
        computed = model.flops(self.micro) / (self.tensor * self.pipe) / rate
        return self.slots() * (computed + micro) + step

    def rate_of(self, model, link, achieved):
        """The inverse: the rate at which a GPU computes if a step achieves `achieved` operations per second."""
        micro, step = self.exposed(model, link)
        slot = (model.flops(self.batch) / self.gpus / achieved - step) / self.slots()
        return model.flops(self.micro) / (self.tensor * self.pipe) / (slot - micro)


# ---- published tables: (table, row, figure, modelled, whether the figure is an input of the model) -------------------

def check_gpipe(data):
    """Speed-ups over a table's first column of stages and first row of micro-batches."""
    for entry in data["gpipe"]:
        base = gpipe_rate(entry["stages"][0], entry["rows"][0][0])
        for micro_batches, *speedups in entry["rows"]:
            for stages, speedup in zip(entry["stages"], speedups, strict=True):
                yield (entry["name"], f"K = {stages}, M = {micro_batches}", speedup,
                       gpipe_rate(stages, micro_batches) / base, (stages, micro_batches) == (
                           entry["stages"][0], entry["rows"][0][0]))


def check_bubbles(data):
    """Shares of a step, in %: the first figure of ZB-H1 determines a model's part of the gradients of weights."""
    for entry in data["zero_bubble"]:
        ranks, counts, rates = entry["ranks"], entry["micro_batches"], entry["rates"]
        weights = weights_of(rates["ZB-H1"][0], ranks, counts[0])
        for schedule, published in rates.items():
            for count, rate in zip(counts, published, strict=True):
                yield (entry["name"], f"{schedule}, {count} micro-batches", 100 * rate,
                       100 * bubble(schedule, ranks, count, entry["chunks"], weights),
                       schedule == "ZB-H1" and count == counts[0])


def check_megatron(data, link_of):
    """TFLOP/s of a GPU: a table's first row determines the rate at which a GPU computes."""
    for entry in data["megatron"]:
        link, rate = link_of(entry["link"]), None
        for hidden, layers, tensor, pipe, chunks, gpus, micro, batch, published in entry["rows"]:
            model = Transformer(hidden, layers, entry["length"], entry["vocabulary"])
            mesh = Mesh(gpus, tensor, pipe, chunks, micro, batch)
            fitted = rate is None
            rate = rate or mesh.rate_of(model, link, published * 1e12)
            achieved = model.flops(batch) / gpus / mesh.seconds(model, link, rate) / 1e12
            yield (entry["name"], f"{gpus} GPUs, tensor {tensor}, pipe {pipe}", published, achieved, fitted)
