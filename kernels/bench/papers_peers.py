#!/usr/bin/env python3
"""Grouped 3 x 3 convolutions by cuDNN, as PyTorch asks for it: the rival of conv_grouped.

    papers_peers.py

One CSV row a case as papers_bench.cc prints them: name,size,,rival,rival_us,rate; bench/report puts it beside ours. The shapes are those of papers_networks.cc, bf16, channels last, the fastest of
cuDNN's ways; a graph of four launches between two events, the median of eleven replays; energy is what NVML counts on the whole board.
"""
import ctypes
import time

import torch


class Energy:
    def __init__(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.nvml.nvmlInit_v2()
        self.device = ctypes.c_void_p()
        self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device))

    def joules(self):
        mj = ctypes.c_ulonglong()
        self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.device, ctypes.byref(mj))
        return mj.value * 1e-3


LAUNCHES = 4


def timed(graph):
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    graph.replay()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) * 1000 / LAUNCHES


def keep(graph, seconds):
    launches, begin = 0, time.monotonic()
    while time.monotonic() - begin < seconds:
        graph.replay()
        torch.cuda.synchronize()
        launches += LAUNCHES
    return launches


def main():
    torch.backends.cudnn.benchmark = True
    energy = Energy()
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}; columns: name,size,ours_us,rival,rival_us,rate")
    for side, channels in ((56, 128), (14, 512)):
        x = torch.randn(64, channels, side, side, dtype=torch.bfloat16, device="cuda").to(memory_format=torch.channels_last)
        for group in (1, 2, 4, 8, 16, 32, 64):
            w = torch.randn(channels, group, 3, 3, dtype=torch.bfloat16, device="cuda").to(memory_format=torch.channels_last)
            with torch.no_grad():
                run = lambda: torch.nn.functional.conv2d(x, w, padding=1, groups=channels // group)
                for _ in range(3):
                    run()
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    for _ in range(LAUNCHES):
                        run()
            timed(graph)
            us = sorted(timed(graph) for _ in range(11))[5]
            terms = x.numel() * 9 * group
            extra = ""
            if side == 56:
                keep(graph, 0.2)
                before = energy.joules()
                launches = keep(graph, 0.8)
                extra = f"; {(energy.joules() - before) / (launches * terms) * 1e12:.3g} pJ each"
            print(f"conv_grouped,64x{side}x{side}x{channels} groups of {group},,cuDNN by PyTorch,{us:.2f},{terms * 1e-6 / us:.4g} T multiply-adds/s{extra}", flush=True)


if __name__ == "__main__":
    main()
