"""Training of mixtures of experts: products of one expert after the other, the passes around them, backward attention,
and what the host needs to launch. Layers of real models are truth; everything else has shapes of its own and calibrates."""
import statistics, time
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from common import BF16, attempt, capture, emit, timed_graph

STREAMS = None


def rand(*shape):
    return torch.empty(*shape, device="cuda", dtype=BF16).normal_(0, 0.05)


def eager(fn, reps=9, warm=3):
    """Seconds of fn as the device sees it, launched by the host each time."""
    times = []
    for i in range(warm + reps):
        torch.cuda.synchronize()
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        fn()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b) / 1e3)
    times = times[warm:]
    return statistics.median(times), min(times), max(times), len(times)


def each_expert(body, count):
    """Work of each expert on one of four streams, as Transformer Engine's GroupedLinear launches it on Hopper."""
    global STREAMS
    STREAMS = STREAMS or [torch.cuda.Stream() for _ in range(4)]
    main = torch.cuda.current_stream()
    for s in STREAMS:
        s.wait_stream(main)
    for e in range(count):
        with torch.cuda.stream(STREAMS[e % 4]):
            body(e)
    for s in STREAMS:
        main.wait_stream(s)


class Experts(torch.autograd.Function):
    """x of all rows, sorted by expert, times each expert's weight; the weights' gradients are added to `sums`."""

    @staticmethod
    def forward(ctx, x, ends, w, sums):
        out = x.new_empty(x.shape[0], w.shape[1])
        each_expert(lambda e: torch.mm(x[ends[e]:ends[e + 1]], w[e].t(), out=out[ends[e]:ends[e + 1]]), len(w))
        ctx.save_for_backward(x)
        ctx.rest = ends, w, sums
        return out

    @staticmethod
    def backward(ctx, g):
        (x,), (ends, w, sums) = ctx.saved_tensors, ctx.rest
        g, dx = g.contiguous(), torch.empty_like(x)
        each_expert(lambda e: torch.mm(g[ends[e]:ends[e + 1]], w[e], out=dx[ends[e]:ends[e + 1]]), len(w))
        each_expert(lambda e: sums[e].addmm_(g[ends[e]:ends[e + 1]].t(), x[ends[e]:ends[e + 1]]), len(w))
        return dx, None, None, None


def products(experts, rows, n, k):
    """Calibration: balanced products of square-ish experts, captured in no graph; forward, and both of the backward pass."""
    def body():
        ends = [i * rows for i in range(experts + 1)]
        x, g, w, sums = rand(experts * rows, k), rand(experts * rows, n), rand(experts, n, k), rand(experts, n, k)
        out, dx = torch.empty_like(g), torch.empty_like(x)
        shape = dict(experts=experts, rows=rows, n=n, k=k, dtype="bf16")
        how = "cuBLAS, one product an expert on four streams"
        def part(e):
            return slice(ends[e], ends[e + 1])
        for name, one in (("forward", lambda e: torch.mm(x[part(e)], w[e].t(), out=out[part(e)])),
                          ("input_gradient", lambda e: torch.mm(g[part(e)], w[e], out=dx[part(e)])),
                          ("weight_gradient", lambda e: sums[e].addmm_(g[part(e)].t(), x[part(e)]))):
            t = eager(lambda: each_expert(one, experts))
            emit("calibration", "experts", f"experts.e{experts}.r{rows}.{n}x{k}.{name}", t, dict(shape, product=name), how)
        offs = torch.tensor(ends[1:], device="cuda", dtype=torch.int32)
        t = eager(lambda: torch._grouped_mm(x, w.transpose(1, 2), offs=offs))
        emit("calibration", "experts", f"experts.e{experts}.r{rows}.{n}x{k}.grouped", t, dict(shape, product="forward"), "torch grouped product")
    attempt(f"experts {experts} {rows}", body)


def passes():
    """Calibration: rows gathered by an index, and each expert's bias added to its rows one expert after the other."""
    for rows, width in ((16384, 2048), (32768, 4096)):
        def body(rows=rows, width=width):
            x = rand(rows, width)
            order = torch.randperm(rows, device="cuda")
            t = eager(lambda: x.index_select(0, order))
            emit("calibration", "pass", f"pass.gather.{rows}x{width}", t, dict(rows=rows, width=width), "torch index_select, bf16")
            count, p = 16, torch.rand(rows, 1, device="cuda")
            counts = [rows // count] * count
            y, bias = rand(rows, width).requires_grad_(), [rand(width).requires_grad_() for _ in range(count)]
            def add():
                parts = [t + b * q for t, b, q in zip(torch.split(y, counts), bias, torch.split(p, counts))]
                return torch.cat(parts, 0).to(BF16)
            t = eager(add)
            emit("calibration", "pass", f"pass.expert_bias.{rows}x{width}.forward", t, dict(rows=rows, width=width, experts=count), "split, bias x probability in fp32, cat")
            g = rand(rows, width)
            t = eager(lambda: torch.autograd.grad(add(), [y, *bias], g))
            emit("calibration", "pass", f"pass.expert_bias.{rows}x{width}.both", t, dict(rows=rows, width=width, experts=count), "the same with its backward pass")
        attempt(f"passes {rows}", body)


def attention():
    for d, batch, heads, seq in ((128, 1, 32, 4096), (128, 1, 16, 8192), (64, 1, 32, 4096), (64, 1, 16, 8192), (128, 4, 16, 2048)):
        for backend, label in ((SDPBackend.FLASH_ATTENTION, "flash"), (SDPBackend.CUDNN_ATTENTION, "cudnn")):
            def body(d=d, batch=batch, heads=heads, seq=seq, backend=backend, label=label):
                q, k, v = (rand(batch, heads, seq, d).requires_grad_() for _ in range(3))
                g = rand(batch, heads, seq, d)
                with sdpa_kernel(backend):
                    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                    forward = eager(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
                    back = eager(lambda: torch.autograd.grad(y, (q, k, v), g, retain_graph=True))
                shape = dict(batch=batch, heads=heads, dim=d, keys=seq, causal=True, dtype="bf16")
                for name, t in (("forward", forward), ("backward", back)):
                    emit("calibration", "training attention", f"attention.training.d{d}.{batch}x{heads}x{seq}.{label}.{name}", t, dict(shape, part=name), f"torch, {label}")
            attempt(f"attention {d} {seq} {label}", body)


def launches():
    """Calibration: seconds that the host needs for an operator, when the device waits for it."""
    def host(name, fn, count, how):
        times = []
        for _ in range(5):
            torch.cuda.synchronize()
            start = time.perf_counter()
            fn()
            span = time.perf_counter() - start
            torch.cuda.synchronize()
            times.append(span / count)
        emit("calibration", "launch", f"launch.{name}", (statistics.median(times), min(times), max(times), 5), dict(operators=count), how)
    def body():
        x, w = rand(64, 64), rand(64, 64)
        host("elementwise", lambda: [x.add_(1) for _ in range(2000)], 2000, "in-place addition, eager")
        host("product", lambda: [torch.mm(x, w) for _ in range(2000)], 2000, "torch.mm, eager")
        leaf = rand(64, 64).requires_grad_()
        def chain():
            y = leaf
            for _ in range(400):
                y = y * 1.01
            return y
        y = chain()
        host("recorded", lambda: chain(), 400, "multiplication that autograd records")
        host("backward", lambda: torch.autograd.grad(y, leaf, y.detach(), retain_graph=True), 400, "its backward operator")
        counts = torch.ones(16, device="cuda", dtype=torch.int64)
        host("counts_to_host", lambda: [counts.tolist() for _ in range(200)], 200, "16 counts read by the host, device idle")
    attempt("launches", body)


LAYERS = {  # hidden, width of an expert, experts, local experts, chosen
    "gpt-oss-120b": (2880, 2880, 128, 16, 4), "qwen3-30b-a3b": (2048, 768, 128, 8, 8), "qwen3-235b-a22b": (4096, 1536, 128, 16, 8),
    "mixtral-8x7b": (4096, 14336, 8, 2, 2), "deepseek-v3": (7168, 2048, 256, 8, 8),
}


def swiglu(h, p):
    a, b = h.chunk(2, -1)
    return F.silu(a) * b * p


def gathered_sum(y, inverse, chosen):
    return y.index_select(0, inverse).view(-1, chosen, y.shape[-1]).sum(1)


class ToExperts(torch.autograd.Function):
    """Rows in the order of their experts; backward each token sums its rows' gradients, without atomic additions."""

    @staticmethod
    def forward(ctx, x, order, inverse, chosen, gather):
        ctx.rest = inverse, chosen, gather
        return x.index_select(0, order // chosen)

    @staticmethod
    def backward(ctx, g):
        return ctx.rest[2](g, *ctx.rest[:2]), None, None, None, None


class ToTokens(torch.autograd.Function):
    """The other way: each token sums its rows; backward each row takes its token's gradient."""

    @staticmethod
    def forward(ctx, y, order, inverse, chosen, gather):
        ctx.rest = order, chosen
        return gather(y, inverse, chosen)

    @staticmethod
    def backward(ctx, g):
        return g.index_select(0, ctx.rest[0] // ctx.rest[1]), None, None, None, None


def layer(name, tokens):
    """Truth: the experts' part of a layer, forward and backward. One GPU holds `local` experts and as many rows as it would get from
    all ranks of its group; a rank's own tokens choose among these, so that rows travel nowhere. Twice: captured in a CUDA graph, with
    the counts of rows known beforehand, and launched by the host, which reads the counts."""
    hidden, width, experts, local, chosen = LAYERS[name]
    def body():
        torch._dynamo.reset()
        active = min(chosen, local)
        n = tokens * chosen // active
        act, gather = torch.compile(swiglu, dynamic=False), torch.compile(gathered_sum, dynamic=False)
        router, up, down = rand(experts, hidden).requires_grad_(), rand(local, 2 * width, hidden), rand(local, hidden, width)
        sums = torch.zeros_like(up), torch.zeros_like(down)
        x, g = rand(n, hidden).requires_grad_(), rand(n, hidden)
        def choose():
            p, picks = F.linear(x, router)[:, :local].softmax(-1, dtype=torch.float32).topk(active, -1)
            return p, picks.flatten()
        def counted(flat):
            return [0] + torch.bincount(flat, minlength=local).cumsum(0).tolist()
        def run(ends=None):
            p, flat = choose()
            ends = ends or counted(flat)
            order = flat.argsort(stable=True)
            inverse = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device="cuda"))
            rows = ToExperts.apply(x, order, inverse, active, gather)
            h = Experts.apply(rows, ends, up, sums[0])
            y = Experts.apply(act(h, p.flatten()[order].unsqueeze(1).to(BF16)), ends, down, sums[1])
            torch.autograd.grad(ToTokens.apply(y, order, inverse, active, gather), (x, router), g)
        ends = counted(choose()[1])
        run()
        run(ends)
        torch.cuda.synchronize()
        shape = dict(model=name, tokens=tokens, experts=experts, local=local, chosen=chosen, hidden=hidden, width=width, dtype="bf16")
        what = "forward and backward, cuBLAS an expert on four streams"
        t = timed_graph(capture(lambda i: run(ends), 1), 1)
        emit("truth", "expert layer", f"experts.layer.{name}.t{tokens}", t, shape, what + ", captured in a CUDA graph")
        emit("truth", "launched layer", f"experts.layer.{name}.t{tokens}.launched", eager(run), shape, what + ", launched by the host, which reads the counts")
    attempt(f"layer {name} {tokens}", body, need=4)


def all_experts():
    for tokens in (4096, 16384):
        for name in LAYERS:
            layer(name, tokens)
            torch.cuda.empty_cache()
    for experts, rows, n, k in ((8, 4096, 4096, 4096), (8, 1024, 4096, 4096), (32, 1024, 4096, 2048), (32, 256, 4096, 2048), (16, 2048, 6144, 3072), (4, 8192, 2048, 1024)):
        products(experts, rows, n, k)
    passes()
    attention()
    launches()
