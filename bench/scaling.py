#!/usr/bin/env python3
"""Pairs per second by strategy on 1 to 64 devices, modelled from a step of one device and the constants of a link.

No figure under "modelled" was measured: see bench/results/scaling.md. Machines and the figures that the model is
compared with are those of bench/data/scaling.json. predicted.py has the model beside a table of throughput. Times are
seconds, sizes bytes.
"""
import argparse
import collections
import dataclasses
import json
import math
import pathlib
import sys

BENCH = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20
# From NCCL's tuning (src/graph/tuning.cc): the factor of a ring's hops between nodes under load; a tree's rate relative
# to a ring's; the seconds of a tree's hop inside a node.
RING_PLATEAU, TREE_RATE, TREE_HOP = 1.4, 0.92, 4e-6
FIRST_BUCKET, BUCKET = 1 * MIB, 25 * MIB  # as in train/parallel/distributed_data_parallel.h
STRATEGIES, PHASES = ("dp", "ddp", "zero1", "zero2", "fsdp"), ("forward", "backward", "optimizer")


@dataclasses.dataclass
class Link:
    """Rates are nccl-tests' busbw: bytes per second that each device sends in a ring."""
    name: str = ""
    node: int = 1 << 31  # devices per node
    base: float = 0  # per collective
    hop: float = 0  # to the next device of the node
    rate: float = math.inf
    node_hop: float = 0
    node_rate: float = math.inf
    tree: bool = False  # whether all-reduces may run over NCCL's tree
    timed: tuple = ()  # all-reduces of two devices, (bytes, seconds), ascending: replace base, hop and rate
    share: float = 0  # of a collective's time that concurrent computing loses: 1 if the same core does both
    shared_memory: bool = False  # DP's replicas read the parameters in place

    def nodes(self, n):
        return (n - 1) // self.node + 1

    def slower(self, n):
        return min(self.rate, self.node_rate) if self.nodes(n) > 1 else self.rate

    def ring(self, n, size, passes):
        crossings = self.nodes(n) - 1
        hops = (n - 1 - crossings) * self.hop + crossings * RING_PLATEAU * self.node_hop
        return self.base + passes * (hops + (n - 1) / n * size / self.slower(n))

    def direct(self, n, size, passes):
        """All devices exchange directly: few hops, but all data that leaves a node uses its adapters."""
        sent = (n - 1) / n * size / self.rate
        if self.nodes(n) == 1:
            return self.base + passes * (self.hop + sent)
        return self.base + passes * (self.node_hop + max(sent, self.node * (n - self.node) / n * size / self.node_rate))

    def tree_all_reduce(self, n, size):
        hops = (min(n, self.node) - 1) * TREE_HOP + math.log2(self.nodes(n)) * self.node_hop
        return self.base + 2 * (hops + size / (TREE_RATE * self.slower(n)))

    def interpolate(self, size):
        """Log-log. Below the first point its value; above the last one proportional to the size."""
        if size <= self.timed[0][0]:
            return self.timed[0][1]
        for (x0, y0), (x1, y1) in zip(self.timed, self.timed[1:]):
            if size < x1:
                return y0 * (y1 / y0) ** (math.log(size / x0) / math.log(x1 / x0))
        return self.timed[-1][1] * size / self.timed[-1][0]

    def collective(self, n, size, passes):
        """By the cheapest algorithm: an all-reduce has two passes, a reduce-scatter or an all-gather one."""
        if n == 1 or size == 0:
            return 0
        if self.timed:
            return passes * (n - 1) / n * self.interpolate(size)
        ours = min(self.ring(n, size, passes), self.direct(n, size, passes))
        return min(ours, self.tree_all_reduce(n, size)) if self.tree and passes == 2 else ours

    def copy(self, size):
        """From one device of a node to another; timed, an all-reduce of two, as each sends all that it has."""
        return self.interpolate(size) if self.timed else self.direct(2, 2 * size, 1)


@dataclasses.dataclass
class Network:
    """The bytes that are exchanged: gradients, and their parameters."""
    layers: int
    layer: float
    table: float  # the word embedding
    rows: float  # of it, read by one device's batch; 0: the whole table is sent
    rest: float  # the other embeddings: ready last

    @staticmethod
    def of(shape, element, rows):
        """An encoder's; `rows` of the word embedding are read by one device's batch."""
        h, i = shape["hidden"], shape["intermediate"]
        # Four projections, two of the feed-forward network, their biases, two LayerNorms.
        layer = 4 * h * h + 2 * h * i + 9 * h + i
        rest = shape["positions"] + shape.get("types", 0) + 2  # and one LayerNorm
        return Network(shape["layers"], *(element * n for n in (layer, h * shape["vocabulary"], h * rows, h * rest)))

    def bytes(self):
        return self.layers * self.layer + self.table + self.rest


@dataclasses.dataclass
class Device:
    """A step of one device."""
    samples: float = 0  # per step, over all accumulations
    forward: float = 0  # per accumulation
    backward: float = 0
    optimizer: float = 0
    accumulations: int = 1
    bf16: bool = False  # FSDP gathers the layers' matrices in it
    forwards: int = 1  # 2: one forward per column of a pair; FSDP and DP then also send twice
    slowest: float = 1  # compute time of the slowest of several ranks over the mean, if their batches differ
    spread: float = 0  # a rank's step relative to its peers' in the same step: standard deviation / mean

    def seconds(self):
        return self.accumulations * (self.forward + self.backward) + self.optimizer


@dataclasses.dataclass
class Step:
    """A modelled step, by part."""
    compute: float = 0  # forward and backward
    exposed: float = 0  # collectives that are not overlapped
    optimizer: float = 0  # a share of it if its state is sharded
    sent: float = 0  # bytes, by one device; by the first one under DP
    gather: float = 0  # part of exposed: parameters, after the update of ZeRO-1 and ZeRO-2
    straggler: float = 0  # expected excess of the slowest rank over the mean; part of exposed, under DP of compute

    def seconds(self):
        return self.compute + self.exposed + self.optimizer


class Model:
    """A compute stream and a concurrent communication stream, in the order of ringlet's own code."""

    def __init__(self, device, network, link, n, slowest):
        self.device, self.network, self.link, self.n, self.step = device, network, link, n, Step()
        self.now = self.wire = 0  # when either stream is done
        self.forward, self.backward = slowest * device.forward, slowest * device.backward
        self.late = device.spread * expected_maximum(n)
        self.compute((device.accumulations - 1) * (self.forward + self.backward))

    def compute(self, seconds):
        self.now += seconds
        self.step.compute += seconds

    def start(self, seconds):
        """A collective, ordered after the earlier ones; returns when it ends."""
        self.wire = max(self.wire, self.now) + seconds
        self.now += self.link.share * seconds
        return self.wire

    def collective(self, passes, size):
        self.step.sent += passes * (self.n - 1) / self.n * size
        return self.start(self.link.collective(self.n, size, passes))

    def wait(self, end=None):
        self.now = max(self.now, self.wire if end is None else end)

    def reduce_table(self, passes):
        """The table's gradient; only its rows if all devices' rows are smaller than the table."""
        rows = self.n * self.network.rows
        by_rows = 0 < rows < self.network.table
        self.collective(*(1, rows) if by_rows else (passes, self.network.table))
        self.wait()

    def none(self):
        self.compute(self.forward + self.backward)

    def dp(self):
        """Sequentially through the first device, without concurrent computing. Its threads meet after backward."""
        self.none()
        self.step.straggler = self.late * self.step.compute
        self.compute(self.step.straggler)
        copies = self.device.forwards * (self.n - 1)
        gradients = copies * self.link.copy(self.network.bytes())
        self.wait(self.start(gradients if self.link.shared_memory else 2 * gradients))
        self.step.sent = 0 if self.link.shared_memory else copies * self.network.bytes()

    def ddp(self):
        self.compute(self.forward)
        layers = left = self.network.layers * self.network.layer
        bucket = FIRST_BUCKET
        while left > 0:
            size = min(left, bucket)
            self.compute(size / layers * self.backward)
            self.collective(2, size)
            left, bucket = left - size, BUCKET
        self.collective(2, self.network.rest)
        self.reduce_table(2)

    def zero1(self):
        """Parameters are gathered after the optimizer's update: fully exposed."""
        self.compute(self.forward)
        for _ in range(self.network.layers):
            self.compute(self.backward / self.network.layers)
            self.collective(1, self.network.layer)
        self.collective(1, self.network.rest)
        self.reduce_table(1)
        reduced = self.now
        for _ in range(self.network.layers):
            self.collective(1, self.network.layer)
        self.wait(self.collective(1, self.network.rest + self.network.table))
        self.step.gather = self.now - reduced

    zero2 = zero1

    def fsdp(self):
        """A unit is gathered while the previous one computes. The first and last unit are the embeddings."""
        layers, layer = self.network.layers, self.network.layer / (2 if self.device.bf16 else 1)
        embeddings = self.network.rest + self.network.table
        for _ in range(self.device.forwards):
            self.wait(self.collective(1, embeddings))
            gathered = self.collective(1, layer)
            for unit in range(1, layers + 1):
                self.wait(gathered)
                gathered = self.collective(1, layer) if unit < layers else gathered
                self.compute(self.forward / self.device.forwards / layers)
        gathered = self.collective(1, layer)
        for unit in range(layers, 0, -1):
            self.wait(gathered)
            gathered = self.collective(1, layer if unit > 1 else embeddings)
            self.compute(self.backward / layers)
            self.collective(1, self.network.layer)
        self.collective(1, self.network.rest)
        self.reduce_table(1)

    def run(self, strategy):
        getattr(self, strategy)()
        step = self.step
        step.exposed = self.now - step.compute
        step.optimizer = self.device.optimizer / (1 if strategy in ("none", "dp", "ddp") else self.n)
        # Exact for ranks that meet once per step, as under DDP. The ranks of ZeRO and FSDP meet more often.
        if strategy not in ("none", "dp"):
            step.straggler = self.late * (step.compute + step.optimizer)
            step.exposed += step.straggler
        return step


@dataclasses.dataclass
class Machine:
    device: Device
    network: Network
    link: Link

    def step(self, strategy, n):
        if strategy == "dp" and n > self.link.node:
            raise ValueError(f"dp is one process: it has {self.link.node} devices of {self.link.name} at most, not {n}")
        # Under DP the devices share a batch of one data set.
        slowest = 1 if n == 1 or strategy == "dp" else self.device.slowest
        return Model(self.device, self.network, self.link, n, slowest).run(strategy)

    def rate(self, strategy, n):
        """Samples per second of all devices together."""
        return n * self.device.samples / self.step(strategy, n).seconds()

    def speedup(self, strategy, n):
        return self.rate(strategy, n) / self.rate("none", 1)

    def calibrate(self, strategy, n, rate):
        """Gives the device forward : backward = 1 : 2, scaled to this rate on n devices by bisection."""
        low, high = 0, n * self.device.samples / rate
        while low < (both := (low + high) / 2) < high:
            self.device.forward, self.device.backward = both / 3, both * 2 / 3
            low, high = (both, high) if self.rate(strategy, n) > rate else (low, both)


def expected_maximum(n):
    """The expected largest of n independent normal draws, in standard deviations above the mean, to 1e-9. The density
    n phi(x) Phi(x)^(n-1) is analytic and vanishes fast, so the trapezoid rule converges fast."""
    grid = [k / 64 for k in range(-768, 769)] if n > 1 else []
    below = [math.erfc(-x / math.sqrt(2)) / 2 for x in grid]
    return sum(x * n * math.exp(-x * x / 2) * p ** (n - 1) for x, p in zip(grid, below)) / math.sqrt(2 * math.pi) / 64


# ---- bench/data/scaling.json ----------------------------------------------------------------------------------------

def rows_of(file):
    return json.loads((BENCH / file).read_text(encoding="utf8"))["rows"]


def by_strategy(file):
    return {row["strategy"]: row for row in reversed(rows_of(file))}


def fields_of(kind, entry):
    return {name: entry[name] for name in kind.__dataclass_fields__ if name in entry}


def read_link(data, name):
    entry = data["links"][name]
    timed = [(row["bytes"], row["p50_us"] * 1e-6) for row in rows_of(entry["timed"])
             if (row["op"], row["algorithm"], row["ranks"]) == ("all_reduce", "direct", 2)] if "timed" in entry else []
    return Link(**{**fields_of(Link, entry), "name": name, "timed": tuple(sorted(timed))})


def step_of(row, **more):
    """The medians of phases do not add up to that of steps: forward and backward divide the time without the optimizer.
    A replayed step has no separate phases."""
    ms = {"forward": 1, "backward": 2, "optimizer": 0, **row["step_ms"]}
    both = (ms["median"] - ms["optimizer"]) / 1e3 / (ms["forward"] + ms["backward"])
    return Device(row["pairs_per_s"] / row["devices"] * ms["median"] / 1e3, both * ms["forward"], both * ms["backward"],
                  ms["optimizer"] / 1e3, bf16=row["dtype"] == "bf16", **more)


def spread_of(rows):
    """A rank's, where the run has timed unconnected devices step by step; else 0."""
    return rows.get("unconnected", {}).get("spread", 0)


def apart(row):
    """Whether the phases of its step are known: a replayed step has none."""
    return "forward" in row["step_ms"]


def base_row(rows):
    """The row to model from, of {strategy: row}: `unconnected` where `none` is replayed or absent."""
    return next((rows[name] for name in ("none", "unconnected") if name in rows and apart(rows[name])), rows.get("none"))


def measured_step(rows):
    """From a run's {strategy: row}, with the spread of its unconnected devices."""
    base = base_row(rows)
    if not base or not apart(base):
        raise ValueError("expected a row of strategy none or unconnected, with phases")
    return step_of(base, spread=spread_of(rows))


def read_machine(data, entry):
    shape = data["networks"][entry["network"]]
    device = measured_step(by_strategy(entry["throughput"])) if "throughput" in entry else Device()
    device = dataclasses.replace(device, **fields_of(Device, entry))
    return Machine(device, Network.of(shape, shape["gradient_bytes"], shape["rows"]), read_link(data, entry["link"]))


# ---- figures that exist, and the model's ----------------------------------------------------------------------------

# A table's row: the measured or published figure, the modelled one, and whether the figure is an input of the model.
Check = collections.namedtuple("Check", "table row figure modelled fitted", defaults=[False])


def check_reference(data):
    """Speed-ups that Sentence Transformers published, of other devices and programs."""
    for entry in data["reference"]["machines"]:
        machine = read_machine(data, entry)
        for strategy, row in data["reference"]["rows"].items():
            if strategy != "none":
                yield Check(entry["name"], f"{strategy} x 4", row["speedup"], machine.speedup(strategy, 4))


def check_published(data):
    """NVIDIA's tables of BERT-large: the first row of each determines the time of a sample."""
    for entry in data["published"]:
        machine, fixed = read_machine(data, entry), entry.get("fixed", 0)
        device = machine.device
        for i, (n, device.samples, device.accumulations, rate) in enumerate(entry["rows"]):
            batch = device.samples / device.accumulations
            if i == 0:
                machine.calibrate("ddp", n, rate)
                each = (device.forward + device.backward - fixed) / batch
            device.forward, device.backward = (fixed + each * batch) / 3, 2 * (fixed + each * batch) / 3
            yield Check(entry["name"], f"{n} devices", rate, machine.rate("ddp", n), i in entry.get("fitted", [0]))


def check_strategies(data):
    """Pairs per second of two ranks on a CPU: the first row determines the step."""
    for entry in data["measured"]:
        machine, rows = read_machine(data, entry), entry.get("rows") or rows_of(entry["throughput"])
        if "rows" in entry:
            machine.calibrate("none", 1, rows[0]["pairs_per_s"])
        for row in rows:
            strategy, n = row["strategy"], row["devices"]
            modelled = machine.rate("none" if strategy == "unconnected" else strategy, n)
            yield Check(entry["name"], f"{strategy} x {n}", row["pairs_per_s"], modelled, row is rows[0])


def check_collectives(data):
    """GB/s of ring all-reduces: those of `direct`, which move the same bytes, determine the link."""
    for name in data["collectives"]:
        link = read_link(data, name)
        for row in rows_of(data["links"][name]["timed"]):
            if row["algorithm"] == "ring":
                size = row["bytes"]
                yield Check(name, f"ring, {size / 1024:g} KiB" if size < MIB else f"ring, {size / MIB:g} MiB",
                            size / row["p50_us"] / 1e3, size / link.collective(row["ranks"], size, 2) / 1e9)


def table(*rows):
    """Markdown; the first row is the head."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def phases_of(device, digits):
    return ", ".join(f"{phase} {1e3 * getattr(device, phase):.{digits}f} ms" for phase in PHASES)


def show_machine(data, entry, throughput, counts):
    machine, source = read_machine(data, entry), f"{entry['basis']} ({entry['source']})"
    if throughput:
        machine.device, source = measured_step(by_strategy(throughput.absolute())), f"measured ({throughput})"
    rows = []
    for strategy, n in ((strategy, n) for n in counts or entry["devices"] for strategy in ("none", *STRATEGIES)):
        if (strategy == "none") != (n == 1) or strategy == "zero2" or strategy == "dp" and n > machine.link.node:
            continue
        step, rate, times = machine.step(strategy, n), machine.rate(strategy, n), machine.speedup(strategy, n)
        rows.append((strategy, n, f"{rate:.0f}" if rate >= 100 else f"{rate:.2f}", f"{times:.2f}", *(
            f"{1e3 * s:.2f}" for s in (step.seconds(), step.exposed, step.optimizer)), f"{step.sent / 1e6:.0f}"))
    spread = f"; a rank's strays by {100 * machine.device.spread:.1f} %" if machine.device.spread else ""
    print(f"\n### {entry['name']} over {machine.link.name}\n\nThe step of one device, {source}: "
          f"{machine.device.samples:.0f} pairs, {phases_of(machine.device, 2)}{spread}.\n")
    modelled = ("pairs/s", "speed-up", "step ms", "exposed ms", "optimizer ms", "MB sent")
    print(table(["strategy", "devices", *(f"{what}, modelled" for what in modelled)], *rows))


def show_checks(title, unit, checks):
    print(f"\n### {title}\n")
    print(table(["", "", unit, "modelled", "error"], *(
        (check.table, check.row, f"{check.figure:.6g}", f"{check.modelled:.6g}",
         "fitted" if check.fitted else f"{100 * check.modelled / check.figure - 100:+.1f} %") for check in checks)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", help="only this one of the file")
    parser.add_argument("--throughput", metavar="FILE", type=pathlib.Path,
                        help="take the machine's step of one device from this report")
    parser.add_argument("--devices", type=lambda text: [*map(int, text.split(","))], help="instead of its own: 1,2,4")
    arguments = parser.parse_args()
    if arguments.throughput and not arguments.machine:
        parser.error("--throughput needs --machine: whose links and network")
    data = json.loads((BENCH / "data/scaling.json").read_text(encoding="utf8"))
    machines = [entry for entry in data["machines"] if arguments.machine in (None, entry["name"])]
    if not machines:
        parser.error(f"unknown machine {arguments.machine!r}; {'; '.join(entry['name'] for entry in data['machines'])}")
    print("Modelled, not measured, wherever a column says so.")
    for entry in machines:
        show_machine(data, entry, arguments.throughput, arguments.devices)
    show_checks("The reference's speed-ups", "published", check_reference(data))
    show_checks("BERT-large as NVIDIA published it", "sequences/s, published", check_published(data))
    show_checks("Two ranks on a CPU", "pairs/s, measured", check_strategies(data))
    show_checks("Ring all-reduces of two ranks, from direct ones", "GB/s, measured", check_collectives(data))


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError) as error:
        sys.exit(f"scaling.py: {error}")
