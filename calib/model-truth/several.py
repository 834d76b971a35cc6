"""Collectives over 2 and 4 GPUs, and tensor-parallel steps. One process a GPU."""
import os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import common
from common import attempt, emit, left


def agreed(t):
    """The slowest rank's time."""
    x = torch.tensor(t[:3], device="cuda", dtype=torch.float64)
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    return tuple(x.tolist()) + (t[3],)


def one(use, kind, name, nbytes, world, group):
    count = nbytes // 2
    x = torch.ones(max(count, world), device="cuda", dtype=torch.bfloat16)
    part = torch.ones(max(count // world, 1), device="cuda", dtype=torch.bfloat16)
    fns = {"all-reduce": lambda i: dist.all_reduce(x, group=group),
           "all-gather": lambda i: dist.all_gather_into_tensor(x, part, group=group),
           "reduce-scatter": lambda i: dist.reduce_scatter_tensor(part, x, group=group),
           "all-to-all": lambda i: dist.all_to_all_single(y, x, group=group)}
    y = torch.empty_like(x)
    inner = 20 if nbytes <= 1 << 23 else 5
    g = common.capture(fns[kind], inner, "thread_local")
    t = agreed(common.timed_graph(g, inner, 5))
    if dist.get_rank() == 0:
        emit(use, "collective", f"collective.{kind}.{world}.{name}", t, dict(collective=kind, ranks=world, bytes=nbytes),
             "NCCL in a CUDA graph, slowest rank; bytes: of the whole tensor on one rank")


def symmetric(world):
    import torch.distributed._symmetric_memory as symm
    name = dist.group.WORLD.group_name
    for nbytes in (8 << 10, 64 << 10, 512 << 10, 2 << 20, 8 << 20):
        x = symm.empty(nbytes // 2, dtype=torch.bfloat16, device=torch.device("cuda", torch.cuda.current_device()))
        symm.rendezvous(x, name)
        for kind in ("one_shot_all_reduce", "two_shot_all_reduce_"):
            op = getattr(torch.ops.symm_mem, kind)
            g = common.capture(lambda i: op(x, "sum", name), 20, "thread_local")
            t = agreed(common.timed_graph(g, 20, 5))
            if dist.get_rank() == 0:
                emit("calibration", "collective", f"collective.{kind}.{world}.{nbytes}", t, dict(collective=kind, ranks=world, bytes=nbytes),
                     "symmetric memory in a CUDA graph")


def worker(rank, world, path, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TORCH_NCCL_ASYNC_ERROR_HANDLING="0")
    torch.cuda.set_device(rank)
    common.open_output(path if rank == 0 else os.devnull)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", rank))
    group = dist.group.WORLD
    for kind in ("all-reduce", "all-gather", "all-to-all", "reduce-scatter"):
        for shift in range(13, 30, 2):
            one("calibration", kind, f"{1 << shift}", 1 << shift, world, group)
        for tokens in (1, 16, 64, 256, 2048, 8192):
            one("truth", kind, f"70b.{tokens}tokens", tokens * 8192 * 2, world, group)
    print(rank, "collectives done", flush=True)
    from steps import Decoder
    meter = common.Meter(rank)
    def steps():
        d = Decoder("llama-3.1-8b", tp=world, reduce=lambda y: dist.all_reduce(y))
        for batch, new, keys in ((1, 1, 1024), (64, 1, 2048), (1, 4096, 4096)):
            d.step(batch, new, keys, None, "truth", "thread_local")
            dist.barrier()
    attempt("tp steps", steps, need=10)
    if left() > 8:
        attempt("symmetric", lambda: symmetric(world), need=5)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    world = int(sys.argv[1])
    mp.spawn(worker, args=(world, sys.argv[2], 29500 + world), nprocs=world)
