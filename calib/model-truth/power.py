"""Energy of steady loops, one kind of work each: what calibrates joules per byte and per operation."""
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from common import attempt, capture, emit
from operators import BF16, FP8, rand


def loop(meter, name, fn, count, shape, how, use="calibration"):
    def body():
        g = capture(fn, count)
        joules, seconds, clock = meter.steady(g, 1.6, 0.7)
        emit(use, "energy", f"energy.{name}", (seconds / count,) * 3 + (1,), shape, how, joules=joules / count, watts=joules / seconds, clock=clock)
    attempt(f"energy {name}", body, need=4)


def all_power(meter):
    attempt("idle", lambda: emit("calibration", "energy", "energy.idle", (1.5, 1.5, 1.5, 1), dict(ops=0, bytes=0), "context, no work", watts=meter.idle()))
    n = 1 << 30
    a = torch.empty(n, device="cuda", dtype=torch.uint8).random_(0, 255)
    b = torch.empty_like(a)
    af = a.view(torch.float32)
    loop(meter, "copy", lambda i: b.copy_(a), 8, dict(ops=0, bytes=2 * n), "copy of 1 GiB, read and written")
    r = torch.empty(n // 4, device="cuda", dtype=torch.float32).normal_()
    loop(meter, "read", lambda i: r.sum(), 8, dict(ops=n / 4, bytes=n), "sum of 1 GiB of random floats")
    small = torch.empty(1 << 22, device="cuda").normal_()
    loop(meter, "l2_read", lambda i: small.sum(), 200, dict(ops=1 << 22, bytes=0, l2_bytes=1 << 24), "sum of 16 MiB that stay in L2")
    for side in (4096, 8192):
        x, y, out = rand(side, side, scale=1.0), rand(side, side, scale=1.0), torch.empty(side, side, device="cuda", dtype=BF16)
        loop(meter, f"gemm{side}.bf16", lambda i: torch.mm(x, y.t(), out=out), 40 if side == 4096 else 8, dict(ops=2 * side**3, bytes=6 * side * side, dtype="bf16"),
             "cuBLAS, normal random operands")
        x8, y8, one = x.to(FP8), y.to(FP8), torch.ones((), device="cuda")
        loop(meter, f"gemm{side}.fp8", lambda i: torch._scaled_mm(x8, y8.t(), scale_a=one, scale_b=one, out_dtype=BF16, use_fast_accum=True),
             40 if side == 4096 else 8, dict(ops=2 * side**3, bytes=4 * side * side, dtype="fp8"), "cuBLASLt, normal random operands")
    ws = [rand(8192, 8192) for _ in range(4)]
    for m in (16, 128):
        x = rand(m, 8192, scale=1.0)
        out = torch.empty(m, 8192, device="cuda", dtype=BF16)
        loop(meter, f"stream{m}.bf16", lambda i: torch.mm(x, ws[i % 4].t(), out=out), 40, dict(ops=2 * m * 8192**2, bytes=2 * 8192**2 + 4 * m * 8192, dtype="bf16"),
             f"product of {m} rows, weights from memory")
    q, k, v = (rand(4, 16, 4096, 128, scale=1.0) for _ in range(3))
    def attend(i):
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v)
    loop(meter, "attention.prefill", attend, 20, dict(ops=4 * 4 * 16 * 4096 * 4096 * 128, bytes=4 * 4 * 16 * 4096 * 128 * 2, dtype="bf16"), "cuDNN, 4 x 16 heads, 4096, full")
    z = torch.empty(1 << 26, device="cuda", dtype=BF16).normal_()
    loop(meter, "gelu", lambda i: F.gelu(z), 20, dict(ops=8 * (1 << 26), bytes=4 * (1 << 26)), "gelu of 64 M elements")
