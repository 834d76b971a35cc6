"""What the driver says is in use against what PyTorch's allocator holds at its peak, in training steps of long sequences.

One JSON line for each run, all use "calibration": `context` (a process with products, attention, a loss and one rank of
NCCL), `loss` (head and cross-entropy of 65,000 tokens beside 32 checkpoints) and `layer` (a recomputed layer of
Llama-3.1-8B's shape at 200,000 tokens beside checkpoints), each with the allocator's usual segments and with expandable
ones. Two iterations; amounts in bytes. Usage: held.py OUT, or held.py OUT RUN ALLOCATOR for one of them.
"""
import json, os, subprocess, sys, time

RUNS = [("context", "usual"), ("loss", "expandable"), ("layer", "expandable"), ("loss", "usual"), ("layer", "usual")]
TOKENS, HIDDEN, FFN, HEADS, KV, DIM, VOCAB = 65000, 4096, 14336, 32, 8, 128, 128256


def used(torch):
    free, total = torch.cuda.mem_get_info()
    return total - free


def numbers(torch):
    return dict(driver=used(torch), reserved=torch.cuda.memory_reserved(), reserved_peak=torch.cuda.max_memory_reserved(),
                allocated_peak=torch.cuda.max_memory_allocated())


def context(torch, emit):
    import torch.distributed as dist
    import torch.nn.functional as F
    torch.zeros(1, device="cuda")
    emit("created", **numbers(torch))
    x = torch.randn(4096, HIDDEN, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    w = torch.randn(HIDDEN, HIDDEN, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    q = (x @ w).view(1, 4096, HEADS, DIM).transpose(1, 2)
    y = F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).reshape(4096, HIDDEN)
    F.cross_entropy(F.rms_norm(y, (HIDDEN,)).float(), torch.zeros(4096, dtype=torch.long, device="cuda")).backward()
    torch.cuda.synchronize()
    emit("worked", **numbers(torch))
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29511", rank=0, world_size=1)
    dist.barrier()
    dist.all_reduce(torch.zeros(1 << 20, device="cuda"))
    torch.cuda.synchronize()
    emit("one rank of NCCL", **numbers(torch))


def loss(torch, emit):
    import torch.nn.functional as F
    kept = [torch.empty(TOKENS, HIDDEN, device="cuda", dtype=torch.bfloat16) for _ in range(32)]
    head = torch.randn(VOCAB, HIDDEN, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    labels = torch.randint(VOCAB, (TOKENS,), device="cuda")
    for i in range(2):
        x = torch.randn(TOKENS, HIDDEN, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        logits = F.linear(x, head)

        def value(logits):
            return F.cross_entropy(logits.float(), labels)
        value(logits).backward()
        head.grad = None
        torch.cuda.synchronize()
        emit(f"iteration {i}", checkpoints=len(kept), **numbers(torch))
        del x, logits


def layer(torch, emit):
    import torch.nn.functional as F
    from torch.utils.checkpoint import checkpoint
    n = 200000

    class Swiglu(torch.autograd.Function):
        @staticmethod
        def forward(ctx, gate, up):
            ctx.save_for_backward(gate, up)
            return F.silu(gate) * up

        @staticmethod
        def backward(ctx, d):
            gate, up = ctx.saved_tensors
            s = torch.sigmoid(gate)
            return d * up * s * (1 + gate * (1 - s)), d * F.silu(gate)

    def weight(*shape):
        return (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.02).requires_grad_()
    wq, wk, wv, wo = weight(HIDDEN, HIDDEN), weight(KV * DIM, HIDDEN), weight(KV * DIM, HIDDEN), weight(HIDDEN, HIDDEN)
    wg, wu, wd = weight(FFN, HIDDEN), weight(FFN, HIDDEN), weight(HIDDEN, FFN)

    def run(x):
        a = F.rms_norm(x, (HIDDEN,))
        q = F.linear(a, wq).view(1, n, HEADS, DIM).transpose(1, 2)
        k, v = (F.linear(a, w).view(1, n, KV, DIM).transpose(1, 2) for w in (wk, wv))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + F.linear(y.transpose(1, 2).reshape(n, HIDDEN), wo)
        m = F.rms_norm(x, (HIDDEN,))
        return x + F.linear(Swiglu.apply(F.linear(m, wg), F.linear(m, wu)), wd)
    kept = [torch.empty(n, HIDDEN, device="cuda", dtype=torch.bfloat16) for _ in range(31)]
    for i in range(2):
        x = torch.randn(n, HIDDEN, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        y = checkpoint(run, x, use_reentrant=False)
        y.backward(torch.ones_like(y))
        for w in (wq, wk, wv, wo, wg, wu, wd):
            w.grad = None
        torch.cuda.synchronize()
        emit(f"iteration {i}", checkpoints=len(kept), **numbers(torch))
        del x, y


def main():
    out = sys.argv[1]
    if len(sys.argv) == 2:
        for run, allocator in RUNS:
            env = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=f"expandable_segments:{allocator == 'expandable'}")
            begun = time.time()
            try:
                status = subprocess.run([sys.executable, __file__, out, run, allocator], env=env, timeout=28).returncode
            except subprocess.TimeoutExpired:
                status = "too long"
            print(run, allocator, status, f"{time.time() - begun:.1f} s", flush=True)
        return
    import torch
    run, allocator = sys.argv[2:]
    with open(out, "a") as file:
        def emit(when, **amounts):
            file.write(json.dumps(dict(id=f"held.{run}.{allocator}.{when}", use="calibration", kind="held memory", run=run,
                                       allocator=allocator, when=when, torch=torch.__version__, **amounts)) + "\n")
            file.flush()
        {"context": context, "loss": loss, "layer": layer}[run](torch, emit)


main()
