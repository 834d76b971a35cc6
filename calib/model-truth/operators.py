"""Operators: matrix products, attention, grouped products, element-wise kernels, convolutions."""
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from common import attempt, capture, copies_for, emit, timed, timed_graph

BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn


def rand(*shape, dtype=BF16, scale=0.05):
    x = torch.randn(*shape, device="cuda", dtype=BF16) * scale
    return x.to(dtype) if dtype != BF16 else x


def gemm(use, name, m, n, k, dtype):
    def body():
        size = n * k * (2 if dtype == BF16 else 1)
        c = copies_for(size)
        ws = [rand(n, k, dtype=dtype) for _ in range(c)]
        x = rand(m, k, dtype=dtype, scale=1.0)
        if dtype == BF16:
            out = torch.empty(m, n, device="cuda", dtype=BF16)
            fn = lambda i: torch.mm(x, ws[i % c].t(), out=out)
        else:
            one = torch.ones((), device="cuda")
            fn = lambda i: torch._scaled_mm(x, ws[i % c].t(), scale_a=one, scale_b=one, out_dtype=BF16, use_fast_accum=True)
        t = timed(fn, least=max(4, min(c, 16)))
        label = "bf16" if dtype == BF16 else "fp8"
        emit(use, "gemm", f"gemm.{name}.m{m}.{label}", t, dict(m=m, n=n, k=k, dtype=label), f"cuBLAS, {c} weights in turn")
    attempt(f"gemm {name} {m} {dtype}", body)


def all_gemms():
    layers = {"8b.qkv": (6144, 4096), "8b.o": (4096, 4096), "8b.gate_up": (28672, 4096), "8b.down": (4096, 14336),
              "70b.gate_up.tp8": (7168, 8192), "70b.down.tp8": (8192, 3584), "70b.qkv.tp8": (1280, 8192),
              "70b.gate_up": (57344, 8192), "8b.head": (128256, 4096)}
    for dtype in (BF16, FP8):
        for m in (1, 16, 64, 256, 1024, 4096):
            for name, (n, k) in layers.items():
                gemm("truth", name, m, n, k, dtype)
        for side in (2048, 8192):
            for m in (1, 8, 32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096, 8192):
                gemm("calibration", f"square{side}", m, side, side, dtype)
        for m in (8, 64, 256, 2048):
            gemm("calibration", "wide", m, 16384, 2048, dtype)
            gemm("calibration", "deep", m, 2048, 16384, dtype)


def sdpa(use, name, batch, hq, hk, d, new, keys, causal):
    best = None
    for backend, label in ((SDPBackend.FLASH_ATTENTION, "flash"), (SDPBackend.CUDNN_ATTENTION, "cudnn")):
        def body():
            size = 2 * batch * hk * keys * d * 2
            c = copies_for(size, most=8)
            q = rand(batch, hq, new, d, scale=1.0)
            ks = [rand(batch, hk, keys, d, scale=1.0) for _ in range(c)]
            vs = [rand(batch, hk, keys, d, scale=1.0) for _ in range(c)]
            def fn(i):
                with sdpa_kernel(backend):
                    return F.scaled_dot_product_attention(q, ks[i % c], vs[i % c], is_causal=causal, enable_gqa=hq != hk)
            return timed(fn, least=max(2, min(c, 4)))
        t = attempt(f"attention {name} {label}", body)
        if t and (best is None or t[0] < best[0][0]):
            best = (t, label)
    if best:
        emit(use, "attention", f"attention.{name}", best[0],
             dict(batch=batch, heads=hq, kv_heads=hk, dim=d, new=new, keys=keys, causal=causal, dtype="bf16"),
             f"torch scaled_dot_product_attention, {best[1]} backend (the fastest of flash and cudnn)")


def all_attention():
    for seq, batch in ((512, 16), (2048, 4), (8192, 1), (16384, 1)):
        sdpa("truth", f"8b.prefill.{batch}x{seq}", batch, 32, 8, 128, seq, seq, True)
        sdpa("truth", f"70b.tp8.prefill.{batch}x{seq}", batch, 8, 1, 128, seq, seq, True)
    for batch, keys in ((1, 1024), (1, 16384), (1, 65536), (8, 2048), (16, 8192), (32, 1024), (64, 4096), (128, 2048), (256, 1024)):
        sdpa("truth", f"8b.decode.{batch}x{keys}", batch, 32, 8, 128, 1, keys, False)
        sdpa("truth", f"70b.tp8.decode.{batch}x{keys}", batch, 8, 1, 128, 1, keys, False)
    sdpa("truth", "flux.joint", 1, 24, 24, 128, 4608, 4608, False)
    for seq, batch in ((1024, 8), (4096, 4), (4096, 1)):
        for d in (64, 128):
            for causal in (True, False):
                sdpa("calibration", f"prefill.d{d}.{batch}x{seq}.{'causal' if causal else 'full'}", batch, 16, 16, d, seq, seq, causal)
    for batch, keys in ((4, 4096), (32, 4096), (128, 512), (2, 32768)):
        for hq, hk in ((16, 16), (16, 4), (64, 8)):
            sdpa("calibration", f"decode.{hq}over{hk}.{batch}x{keys}", batch, hq, hk, 128, 1, keys, False)


def offsets_of(tokens, experts, chosen):
    scores = torch.rand(tokens, experts, device="cuda")
    picks = scores.topk(chosen, dim=1).indices.flatten()
    counts = torch.bincount(picks, minlength=experts)
    return counts.cumsum(0).to(torch.int32), int((counts > 0).sum()), int(counts.max())


def grouped(use, name, tokens, experts, local, chosen, n, k, dtype):
    def body():
        
        c = copies_for(local * n * k * (2 if dtype == BF16 else 1), total=2e8, most=4)
        offs, hit, most = offsets_of(tokens, experts, chosen)
        if local < experts:
            counts = torch.diff(offs, prepend=torch.zeros(1, device="cuda", dtype=torch.int32))[:local]
            offs, hit, most = counts.cumsum(0).to(torch.int32), int((counts > 0).sum()), int(counts.max())
        total = int(offs[-1])
        ws = [torch.randn(local, n, k, device="cuda", dtype=BF16).mul_(0.05).to(dtype).transpose(1, 2) for _ in range(c)]
        x = rand(max(total, 16), k, dtype=dtype, scale=1.0)
        if dtype == BF16:
            fn = lambda i: torch._grouped_mm(x, ws[i % c], offs=offs)
        else:
            sa = torch.ones(max(total, 16), device="cuda")
            sb = torch.ones(local, n, device="cuda")
            fn = lambda i: torch._scaled_grouped_mm(x, ws[i % c], sa, sb, offs=offs, out_dtype=BF16, use_fast_accum=True)
        t = timed(fn, least=max(2, min(c, 4)))
        label = "bf16" if dtype == BF16 else "fp8"
        emit(use, "grouped", f"grouped.{name}.t{tokens}.{label}", t,
             dict(tokens=tokens, experts=experts, local=local, chosen=chosen, rows=total, hit=hit, largest=most, n=n, k=k, dtype=label),
             "torch grouped product (CUTLASS), uniform random choice of experts")
    attempt(f"grouped {name} {tokens} {dtype}", body)


def all_grouped():
    truth = {"mixtral.up": (8, 8, 2, 28672, 4096), "qwen3-30b.up": (128, 128, 8, 1536, 2048), "qwen3-30b.down": (128, 128, 8, 2048, 768),
             "qwen3-235b.up.ep8": (128, 16, 8, 3072, 4096), "qwen3-235b.down.ep8": (128, 16, 8, 4096, 1536),
             "deepseek-v3.up.ep8": (256, 32, 8, 4096, 7168), "gpt-oss-120b.up.ep2": (128, 64, 4, 5760, 2880)}
    for dtype in (BF16, FP8):
        for tokens in (1, 16, 64, 256, 1024, 4096, 16384):
            for name, (e, l, c, n, k) in truth.items():
                grouped("truth", name, tokens, e, l, c, n, k, dtype)
        for tokens in (4, 32, 128, 512, 2048, 8192):
            grouped("calibration", "e64", tokens, 64, 64, 4, 4096, 4096, dtype)
            grouped("calibration", "e16", tokens, 16, 16, 1, 8192, 4096, dtype)


def all_elementwise():
    for rows in (1, 64, 1024, 8192, 65536):
        for width in (4096, 8192):
            def body(rows=rows, width=width):
                c = copies_for(rows * width * 2, most=8)
                xs = [rand(rows, width) for _ in range(c)]
                w = rand(width)
                t = timed(lambda i: F.rms_norm(xs[i % c], (width,), w, 1e-5))
                emit("truth" if width == 8192 else "calibration", "norm", f"norm.{rows}x{width}", t, dict(rows=rows, width=width, dtype="bf16"),
                     "torch rms_norm")
                
                t = timed(lambda i: xs[i % c].add(xs[(i + 1) % c]))
                emit("calibration", "map", f"add.{rows}x{width}", t, dict(rows=rows, width=width, dtype="bf16"), "x + y")
            attempt(f"elementwise {rows}x{width}", body)


def all_convolutions():
    for name, ch, side in (("mid", 512, 128), ("up1", 512, 256), ("up2", 256, 512), ("up3", 128, 1024)):
        def body(name=name, ch=ch, side=side):
            x = rand(1, ch, side, side).to(memory_format=torch.channels_last)
            w = rand(ch, ch, 3, 3).to(memory_format=torch.channels_last)
            t = timed(lambda i: F.conv2d(x, w, padding=1))
            emit("truth", "conv", f"conv.vae.{name}", t, dict(channels=ch, out=ch, side=side, kernel=3, dtype="bf16"), "cuDNN 3 x 3, channels last")
            g, b = rand(ch), rand(ch)
            t = timed(lambda i: F.silu(F.group_norm(x, 32, g, b)))
            emit("truth", "groupnorm", f"groupnorm.vae.{name}", t, dict(channels=ch, side=side, dtype="bf16"), "torch group_norm, silu")
        attempt(f"conv {name}", body)
