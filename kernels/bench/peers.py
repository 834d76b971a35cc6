#!/usr/bin/env python3
"""Ours and other libraries' kernels, in turns in one process.

    peers.py BUILD_DIR/libkernels_peers_shared.so TABLE
    peers.py BUILD_DIR/libkernels_peers_shared.so --out DIR TABLE... a file DIR/NAME.csv each, with what run.sh writes at its head

TABLE: attention, attention_fp8, backward, varlen, grouped, block_scaled, sparse. A result that differs from the rival's leaves a
line "# WRONG" in place of its times, and the exit status is 1. Times CUDA-graph replays of a few calls between events, median of
fifteen; a replay of one is followed by a replay of the other, so that clocks and temperature are the same for both. Rivals,
through PyTorch: cuDNN (attention, backward), FlashAttention 2 (varlen), CUTLASS (grouped), cuBLASLt (block scales), cuSPARSELt
(sparse).
"""
import contextlib
import ctypes
import datetime
import statistics
import subprocess
import sys
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

BF16 = torch.bfloat16


def pointers(*tensors):
    return [ctypes.c_void_p(None if t is None else t.data_ptr()) for t in tensors]


def stream():
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


def longs(*values):
    return [ctypes.c_long(v) for v in values]


def captured(call, calls):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    return graph


def once(run, calls):
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    run()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) * 1000 / calls


def race(rivals, calls=5):
    """{who: microseconds}; a rival that cannot be run is left out, with the reason as a comment line."""
    runs = {}
    for who, call in rivals.items():
        try:
            runs[who] = captured(call, calls).replay
        except Exception as e:
            torch.cuda.synchronize()
            print(f"# {who} left out: {str(e).splitlines()[0][:150]}")
    times = [[once(r, calls) for r in runs.values()] for _ in range(16)][1:]
    return dict(zip(runs, (statistics.median(t) for t in zip(*times))))


FAULTS = []


def report(table, key, times, flop, difference=0.0, bound=0.05):
    if not difference < bound:
        print(f"# WRONG {table} {key}: differs by {difference}", flush=True)
        FAULTS.append(key)
        return
    for who, us in times.items():
        print(f"{table},{','.join(map(str, key))},{who},{us:.2f},{flop / us * 1e-6:.1f}", flush=True)


def worst(got, want):
    return (got.float() - want.float()).abs().max().item()


def attention_shapes():
    for causal in (False, True):
        for batch, heads, seq, dim in [(16384 // s, 16, s, 128) for s in (1024, 2048, 4096, 8192, 16384)] + [(4, 32, 4096, 64)]:
            yield batch, heads, seq, dim, causal


def attention(library):
    print("# columns: table,batch,heads,seq,dim,causal,who,us,tflops")
    wide = [(4, 16, 4096, dim, causal) for dim in (192, 256) for causal in (False, True)]
    for batch, heads, seq, dim, causal in list(attention_shapes()) + wide:
        dense = [torch.randn((batch, seq, heads, dim), device="cuda", dtype=BF16) for _ in range(3)]
        q, k, v = (x.transpose(1, 2) for x in dense)
        out = torch.full_like(dense[0], float("nan"))

        def ours():
            assert library.orrery_attention(*pointers(out, None, *dense), *longs(batch, heads, seq, dim), int(causal), stream()) == 0

        def theirs():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        times = race({"orrery": ours, "cudnn": theirs})
        ours()
        difference = worst(out, theirs().transpose(1, 2)) if "cudnn" in times else 0
        report("attention", (batch, heads, seq, dim, int(causal)), times, 4 * batch * heads * seq * seq * dim * (0.5 if causal else 1), difference)


def attention_fp8(library):
    print("# columns: table,batch,heads,seq,dim,causal,who,us,tflops")
    library.orrery_attention_fp8.restype = ctypes.c_long
    wide = [(4, 16, 4096, dim, causal) for dim in (192, 256) for causal in (False, True)]
    for batch, heads, seq, dim, causal in list(attention_shapes()) + wide:
        dense = [torch.randn((batch, seq, heads, dim), device="cuda", dtype=BF16) for _ in range(3)]
        small = [x.to(torch.float8_e4m3fn) for x in dense]
        q, k, v = (x.transpose(1, 2) for x in dense)
        out, full = (torch.full_like(dense[0], float("nan")) for _ in range(2))
        size, flags = longs(batch, heads, seq, dim), int(causal)
        workspace = torch.empty(library.orrery_attention_fp8(*pointers(*[None] * 5), *size, flags, None), dtype=torch.uint8, device="cuda")

        def ours():
            assert library.orrery_attention_fp8(*pointers(out, *small, workspace), *size, flags, stream()) == 0

        def ours_bf16():
            assert library.orrery_attention(*pointers(full, None, *dense), *size, flags, stream()) == 0

        def cudnn_bf16():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        times = race({"orrery": ours, "orrery_bf16": ours_bf16, "cudnn_bf16": cudnn_bf16})
        ours(), ours_bf16()
        difference = (out.float() - full.float()).norm().item() / full.float().norm().item()  # what e4m3 costs
        report("attention_fp8", (batch, heads, seq, dim, flags), times, 4 * batch * heads * seq * seq * dim * (0.5 if causal else 1), difference, 0.12)


def backward(library):
    print("# columns: table,batch,heads,seq,dim,causal,who,us,tflops")
    for batch, heads, seq, dim, causal in attention_shapes():
        dense = [torch.randn((batch, seq, heads, dim), device="cuda", dtype=BF16) for _ in range(4)]
        q, k, v, d_out = (x.transpose(1, 2).detach().requires_grad_() for x in dense)
        lse = torch.empty((batch, heads, seq), device="cuda")
        out, dq, dk, dv = (torch.full_like(dense[0], float("nan")) for _ in range(4))
        size, flags = longs(batch, heads, seq, dim), (int(causal),)
        assert library.orrery_attention(*pointers(out, lse, *dense[:3]), *size, *flags, stream()) == 0
        library.orrery_backward.restype = ctypes.c_long
        bytes_ = library.orrery_backward(*pointers(*[None] * 10), *size, *flags, None)
        workspace = torch.empty(bytes_, dtype=torch.uint8, device="cuda")

        def ours():
            assert library.orrery_backward(*pointers(dq, dk, dv, *dense[:3], out, lse, dense[3], workspace), *size, *flags, stream()) == 0

        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            result = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        def theirs():
            return torch.autograd.grad(result, (q, k, v), d_out, retain_graph=True)

        for _ in range(3):
            ours(), theirs()
        times = {"orrery": [], "cudnn": []}  # not captured: autograd brings streams of its own
        for _ in range(16):
            times["orrery"].append(once(lambda: [ours() for _ in range(3)], 3)), times["cudnn"].append(once(lambda: [theirs() for _ in range(3)], 3))
        difference = max(worst(mine, t.transpose(1, 2)) / t.float().abs().max().item() for mine, t in zip((dq, dk, dv), theirs()))
        report("backward", (batch, heads, seq, dim, int(causal)), {w: statistics.median(t[1:]) for w, t in times.items()},
               10 * batch * heads * seq * seq * dim * (0.5 if causal else 1), difference)


def varlen(library):
    print("# columns: table,batch,heads,tokens,longest,dim,causal,who,us,tflops")
    from torch.nn.attention.varlen import varlen_attn
    generator = torch.Generator().manual_seed(1)
    for lengths in ([2048] * 8, torch.randint(64, 4097, (8,), generator=generator).tolist(), torch.randint(16, 1025, (32,), generator=generator).tolist(),
                    [16384] + [256] * 16):
        for causal in (False, True):
            heads, dim, rows, longest = 16, 128, sum(lengths), max(lengths)
            q, k, v = (torch.randn((rows, heads, dim), device="cuda", dtype=BF16) for _ in range(3))
            starts = torch.tensor([0] + lengths, device="cuda").cumsum(0).to(torch.int32)
            out = torch.full_like(q, float("nan"))

            def ours():
                assert library.orrery_varlen(*pointers(out, q, k, v, starts), *longs(len(lengths), heads, rows, longest, dim), int(causal), stream()) == 0

            def theirs():
                try:
                    return varlen_attn(q, k, v, starts, starts, longest, longest, is_causal=causal)
                except TypeError:
                    return varlen_attn(q, k, v, starts, starts, longest, longest, window_size=(-1, 0) if causal else (-1, -1))

            times = race({"orrery": ours, "flash_attention_2": theirs})
            ours()
            difference = worst(out, theirs()) if len(times) > 1 else 0
            report("varlen", (len(lengths), heads, rows, longest, dim, int(causal)), times, sum(4 * heads * n * n * dim * (0.5 if causal else 1) for n in lengths), difference)


def grouped(library):
    print("# columns: table,rows,n,k,groups,type,who,us,tflops")
    generator = torch.Generator().manual_seed(2)
    for rows, n, k, groups in ((4096, 4096, 7168, 8), (8192, 4096, 2048, 32), (16384, 14336, 4096, 8), (1024, 4096, 7168, 16), (256, 4096, 7168, 32)):
        cuts = sorted(torch.randint(0, rows + 1, (groups - 1,), generator=generator).tolist()) + [rows]
        ends = torch.tensor(cuts, device="cuda", dtype=torch.int32)
        for fp8 in (0, 1):
            kind = torch.float8_e4m3fn if fp8 else BF16
            a, b = torch.randn((rows, k), device="cuda").to(kind), torch.randn((groups, n, k), device="cuda", dtype=BF16).to(kind)
            out = torch.full((rows, n), float("nan"), device="cuda", dtype=BF16)
            ones_a, ones_b = torch.ones(rows, device="cuda"), torch.ones((groups, n), device="cuda")

            def ours():
                assert library.orrery_grouped(*pointers(out, a, b, ends), *longs(rows, n, k, groups), fp8, stream()) == 0

            def theirs():
                if fp8:
                    return torch._scaled_grouped_mm(a, b.transpose(1, 2), ones_a, ones_b, offs=ends, out_dtype=BF16, use_fast_accum=True)
                return torch._grouped_mm(a, b.transpose(1, 2), offs=ends, out_dtype=BF16)

            times = race({"orrery": ours, "cutlass": theirs})
            ours()
            difference = worst(out, theirs()) / out.float().abs().max().item() if len(times) > 1 else 0
            report("grouped", (rows, n, k, groups, "e4m3" if fp8 else "bf16"), times, 2 * rows * n * k, difference, 0.02)
            del a, b


def block_scaled(library):
    print("# columns: table,m,n,k,who,us,tflops")
    for m, n, k in ((64, 4096, 7168), (128, 7168, 2048), (512, 4096, 7168), (4096, 4096, 7168), (4096, 7168, 2048), (4096, 24576, 1536), (8192, 8192, 8192)):
        a, b = (torch.randn((x, k), device="cuda").to(torch.float8_e4m3fn) for x in (m, n))
        scale_a, scale_b = torch.rand((m, k // 128), device="cuda") + 0.5, torch.rand((n // 128, k // 128), device="cuda") + 0.5
        out = torch.full((m, n), float("nan"), device="cuda", dtype=BF16)
        columns = scale_a.t().contiguous().t()

        def ours():
            assert library.orrery_block_scaled(*pointers(out, a, b, scale_a, scale_b), *longs(m, n, k), stream()) == 0

        def theirs():
            return torch._scaled_mm(a, b.t(), scale_a=columns, scale_b=scale_b.t(), out_dtype=BF16)

        times = race({"orrery": ours, "cublaslt": theirs})
        ours()
        wide = (a.float().view(m, -1, 128) * scale_a[:, :, None]).view(m, k) @ (b.float().view(n // 128, 128, -1, 128) * scale_b[:, None, :, None]).view(n, k).t()
        report("block_scaled", (m, n, k), times, 2 * m * n * k, worst(out, wide) / wide.abs().max().item(), 0.02)


def sparse(library):
    print("# columns: table,m,n,k,who,us,tflops (of the dense product)")
    for m, n, k in ((128, 4096, 4096), (1024, 4096, 4096), (4096, 4096, 4096), (4096, 14336, 4096), (4096, 4096, 14336), (8192, 8192, 8192)):
        a, w = torch.randn((m, k), device="cuda", dtype=BF16), torch.randn((n, k), device="cuda", dtype=BF16)
        rank = w.abs().view(n, k // 4, 4).topk(2).indices
        w = torch.zeros_like(w).view(n, k // 4, 4).scatter_(2, rank, w.view(n, k // 4, 4).gather(2, rank)).view(n, k)
        out = torch.full((m, n), float("nan"), device="cuda", dtype=BF16)
        values = torch.empty(n * k, dtype=torch.uint8, device="cuda")
        codes = torch.empty((n + 15) // 16 * ((k + 127) // 128) * 256, dtype=torch.uint8, device="cuda")
        assert library.orrery_sparse(*pointers(None, None, values, codes, w), *longs(m, n, k), stream()) == 0

        def ours():
            assert library.orrery_sparse(*pointers(out, a, values, codes, None), *longs(m, n, k), stream()) == 0

        rivals = {"orrery": ours, "cublas_dense": lambda: torch.mm(a, w.t())}
        try:
            packed = torch._cslt_compress(w)
            rivals["cusparselt"] = lambda: torch._cslt_sparse_mm(packed, a.t())
        except Exception as e:
            print(f"# cusparselt left out: {str(e).splitlines()[0][:150]}")
        times = race(rivals)
        ours()
        want = torch.mm(a, w.t())
        report("sparse", (m, n, k), times, 2 * m * n * k, worst(out, want) / want.float().abs().max().item(), 0.02)


def run(library, table):
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    {f.__name__: f for f in (attention, attention_fp8, backward, varlen, grouped, block_scaled, sparse)}[table](library)


def main():
    library = ctypes.CDLL(sys.argv[1])
    if sys.argv[2] != "--out":
        run(library, sys.argv[2])
    for table in sys.argv[4:]:
        driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
        with open(f"{sys.argv[3]}/{'attention_peers' if table == 'attention' else table}.csv", "w") as out, contextlib.redirect_stdout(out):
            print(f"# date {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%dT%H:%MZ}, driver {driver}, clocks left alone")
            print(f"# command: python3 kernels/bench/peers.py libkernels_peers_shared.so {table}", flush=True)
            run(library, table)
    sys.exit(1 if FAULTS else 0)


main()
