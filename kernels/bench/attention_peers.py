#!/usr/bin/env python3
"""cuDNN's attention forward through PyTorch, at the shapes of attention_bench, in the same CSV.

Times CUDA-graph replays of five calls between events, median of fifteen, as attention_bench does.
"""
import statistics
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


def measure(batch, heads, seq, dim, causal):
    shape = (batch, seq, heads, dim)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16).transpose(1, 2) for _ in range(3))

    def call():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(5):
                call()
    times = []
    for _ in range(16):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1000 / 5)
    return statistics.median(times[1:])


def main():
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    for causal in (False, True):
        shapes = [(16384 // s, 16, s, 128) for s in (1024, 2048, 4096, 8192, 16384)] + [(4, 32, 4096, 64)]
        for batch, heads, seq, dim in shapes:
            us = measure(batch, heads, seq, dim, causal)
            flop = 4 * batch * heads * seq * seq * dim * (0.5 if causal else 1.0)
            print(f"attention,{batch},{heads},{seq},{dim},{int(causal)},cudnn,{us:.2f},{flop / us * 1e-6:.1f}", flush=True)


main()
