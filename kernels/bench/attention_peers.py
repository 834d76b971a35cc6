#!/usr/bin/env python3
"""Attention forward, ours and cuDNN's (through PyTorch), in turns in one process, at the shapes of attention_bench.

    attention_peers.py BUILD_DIR/libkernels_attention_shared.so

Times CUDA-graph replays of five calls between events, median of fifteen; a replay of one is followed by a replay of the
other, so that clocks and temperature are the same for both.
"""
import ctypes
import statistics
import sys
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

CALLS = 5


def captured(call):
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    return graph


def once(graph):
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    graph.replay()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) * 1000 / CALLS


def measure(library, batch, heads, seq, dim, causal):
    """Microseconds of ours and of cuDNN's, and the largest difference between the two results."""
    dense = [torch.randn((batch, seq, heads, dim), device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    q, k, v = (x.transpose(1, 2) for x in dense)
    out = torch.full_like(dense[0], float("nan"))

    def ours():
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        assert library.orrery_attention(*(ctypes.c_void_p(x.data_ptr()) for x in (out, *dense)), *map(ctypes.c_long, (batch, heads, seq, dim)),
                                        ctypes.c_int(causal), stream) == 0

    def theirs():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        graphs = [captured(ours), captured(theirs)]
        want = theirs().transpose(1, 2)
    times = [[once(g) for g in graphs] for _ in range(16)][1:]
    graphs[0].replay()
    torch.cuda.synchronize()
    difference = (out.float() - want.float()).abs().max().item()
    return [statistics.median(t) for t in zip(*times)], difference


def main():
    library = ctypes.CDLL(sys.argv[1])
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}; columns: table,batch,heads,seq,dim,causal,who,us,tflops")
    for causal in (False, True):
        shapes = [(16384 // s, 16, s, 128) for s in (1024, 2048, 4096, 8192, 16384)] + [(4, 32, 4096, 64)]
        for batch, heads, seq, dim in shapes:
            times, difference = measure(library, batch, heads, seq, dim, causal)
            flop = 4 * batch * heads * seq * seq * dim * (0.5 if causal else 1.0)
            for who, us in zip(("orrery", "cudnn"), times):
                print(f"attention,{batch},{heads},{seq},{dim},{int(causal)},{who},{us:.2f},{flop / us * 1e-6:.1f}", flush=True)
            if not difference < 0.05:
                print(f"# WRONG: differs by {difference}")


main()
