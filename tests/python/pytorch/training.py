"""DDP, FSDP2, DTensor and distributed checkpoints of PyTorch on two ranks: by ringlet the losses are gloo's, and a
second run has the first one's bits. A stalled rank is named."""
import datetime
import multiprocessing
import os
import pathlib
import sys
import tempfile
import time

RANKS = 2
STEPS = 4


def model(torch):
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 32), torch.nn.GELU(),
                               torch.nn.Linear(32, 4))


def train(torch, module, rank, steps=STEPS, first=0):
    """The losses of this rank's batches."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for step in range(first, first + steps):
        generator = torch.Generator().manual_seed(100 * step + rank)
        rows = torch.randn(8, 16, generator=generator)
        loss = torch.nn.functional.cross_entropy(module(rows), torch.arange(8) % 4)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def ddp(torch, rank, folder):
    return train(torch, torch.nn.parallel.DistributedDataParallel(model(torch)), rank)


def sharded(torch):
    from torch.distributed.fsdp import fully_shard
    module = model(torch)
    mesh = torch.distributed.init_device_mesh("cpu", (RANKS,))
    for layer in module:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(module, mesh=mesh)


def fsdp(torch, rank, folder):
    return train(torch, sharded(torch), rank)


def dtensor(torch, rank, folder):
    """A product of a row-sharded and a column-sharded matrix, and its redistributions."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    mesh = torch.distributed.init_device_mesh("cpu", (RANKS,))
    left = distribute_tensor(torch.arange(48.).view(6, 8) / 7, mesh, [Shard(1)])
    right = distribute_tensor(torch.arange(32.).view(8, 4) / 5, mesh, [Shard(0)])
    product = left @ right  # partial sums
    rows = product.redistribute(mesh, [Shard(0)])
    columns = rows.redistribute(mesh, [Shard(1)])
    return columns.redistribute(mesh, [Replicate()]).to_local().flatten().tolist()


def checkpoint(torch, rank, folder):
    """Half of the steps, a checkpoint, and the other half in another module: the losses of all steps in one go."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
    module = sharded(torch)
    losses = train(torch, module, rank, STEPS // 2)
    dcp.save(get_model_state_dict(module), checkpoint_id=folder)
    other = sharded(torch)
    train(torch, other, rank, 1, first=50)
    state = get_model_state_dict(other)
    dcp.load(state, checkpoint_id=folder)
    set_model_state_dict(other, state)
    return losses + train(torch, other, rank, STEPS // 2, first=STEPS // 2)


def edges(torch, rank, folder):
    """A view under inference mode; an all-to-all of which one rank names the sizes; a coalescing block without an end;
    a receive from any source that nobody answers."""
    collectives = torch.distributed
    group = collectives.new_group()
    with torch.inference_mode():
        view = torch.ones(4, 4).t()[:, ::2]
        work = collectives.all_reduce(view, group=group, async_op=True)
        while not work.is_completed():  # by the group's thread
            time.sleep(0.01)
        work.wait()
    received, sizes = torch.zeros(4), [2, 2] if rank else None
    collectives.all_to_all_single(received, torch.arange(4.) + 10 * rank, sizes, sizes, group=group)
    cpu, sums = torch.device("cpu"), torch.ones(2)
    group._start_coalescing(cpu)
    group._start_coalescing(cpu)
    collectives.all_reduce(sums, group=group, async_op=True)
    group._end_coalescing(cpu).wait()
    pending = collectives.irecv(torch.ones(1), group=group)
    collectives.destroy_process_group(group)
    del group
    try:
        pending.wait()
        error = ""
    except RuntimeError as destroyed:
        error = str(destroyed)
    return [view.tolist() == [[2, 2]] * 4, received.tolist() == [2. * rank + 10 * i + j for i in range(2) for j in range(2)],
            sums.tolist() == [2, 2], "was destroyed" in error]


def stall(torch, rank, folder):
    """Rank 1 does not come: rank 0's error names the collective, its step, the missing rank and the time."""
    torch.distributed.all_reduce(torch.ones(8))
    named = pathlib.Path(folder, "named")
    if rank > 0:
        while not named.exists():
            time.sleep(0.05)
        return "late"
    try:
        torch.distributed.all_reduce(torch.ones(100))
        return "no error"
    except torch.distributed.DistBackendError as error:
        return str(error)
    finally:
        named.touch()


def rank_main(rank, folder, results):
    import torch
    import ringlet.torch  # noqa: F401
    torch.set_num_threads(1)
    group = {"rank": rank, "world_size": RANKS}
    for run, backend in enumerate(["gloo", "ringlet", "ringlet"]):
        torch.distributed.init_process_group(backend, init_method=f"file://{folder}/store{run}", **group)
        for job in (ddp, fsdp, dtensor, checkpoint):
            losses = job(torch, rank, f"{folder}/{run}")
            results.put((job.__name__, rank, run, losses))
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    torch.distributed.init_process_group("ringlet", init_method=f"file://{folder}/stall",
                                         timeout=datetime.timedelta(seconds=5), **group)
    results.put(("edges", rank, 0, edges(torch, rank, folder)))
    results.put(("stall", rank, 0, stall(torch, rank, folder)))
    os._exit(0)  # the group has failed


def main():
    spawn = multiprocessing.get_context("spawn")
    results = spawn.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        processes = [spawn.Process(target=rank_main, args=(rank, folder, results)) for rank in range(RANKS)]
        for process in processes:
            process.start()
        found = {}
        alive = True
        while alive or not results.empty():
            alive = any(process.is_alive() for process in processes)
            while not results.empty():
                *key, value = results.get()
                found[tuple(key)] = value
            time.sleep(0.05)
        for process in processes:
            process.join()
    failed = 0
    for job in ("ddp", "fsdp", "dtensor", "checkpoint"):
        for rank in range(RANKS):
            gloo, first, second = (found.get((job, rank, run)) for run in range(3))
            good = gloo is not None and first == second and len(gloo) == len(first) and all(
                abs(a - b) <= 1e-6 * max(1, abs(a)) for a, b in zip(gloo, first))
            failed += not good
            print(f"{job}, rank {rank}: {'as gloo' if good else f'{gloo} {first} {second}'}")
    expected = all(found.get(("fsdp", rank, 1)) == found.get(("checkpoint", rank, 1)) for rank in range(RANKS))
    print(f"a resumed run {'has' if expected else 'LACKS'} the bits of one without a break")
    message = found.get(("stall", 0, 0)) or ""
    named = all(part in message for part in ("[all_reduce] collective 2 (f32, 100), step 0", "rank 0 waited 5 s",
                                             "for rank 1", "missing: 1"))
    print(f"a stall: {message}")
    edges_of = [found.get(("edges", rank, 0)) for rank in range(RANKS)]
    print(f"edges: {edges_of}")
    return 1 if failed or not expected or not named or edges_of != [[True] * 4] * RANKS else 0


if __name__ == "__main__":
    sys.exit(main())
