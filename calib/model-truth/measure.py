"""Runs one set of measurements on one GPU: measure.py SET OUTPUT (sets: gemm, attention, grouped, power, products, autoencoder, decode, copies, experts).

Several GPUs: start one process each with CUDA_VISIBLE_DEVICES; METER is the index that NVML knows the GPU by.
"""
import json, os, sys, time
import torch
import common
from common import Meter, attempt, emit, open_output


def copies():
    import statistics
    for name, pinned in (("pinned", True), ("pageable", False)):
        for nbytes in (1 << 16, 1 << 20, 1 << 24, 1 << 28):
            host = torch.empty(nbytes, dtype=torch.uint8, pin_memory=pinned)
            host.fill_(1)
            dev = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
            for kind, fn in (("h2d", lambda: dev.copy_(host, non_blocking=True)), ("d2h", lambda: host.copy_(dev, non_blocking=True))):
                times = []
                for _ in range(8):
                    torch.cuda.synchronize()
                    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                    a.record(); fn(); b.record(); b.synchronize()
                    times.append(a.elapsed_time(b) / 1e3)
                times = times[2:]
                emit("truth", "copy", f"copy.{kind}.{name}.{nbytes}", (statistics.median(times), min(times), max(times), len(times)),
                     dict(direction=kind, memory=name, bytes=nbytes), "one copy, events around it")


def main():
    which, path = sys.argv[1], sys.argv[2]
    open_output(path)
    print(json.dumps(common.environment()), flush=True)
    meter = Meter(int(os.environ.get("METER", "0")))
    import operators, power, steps
    if which in ("gemm", "all"):
        operators.all_gemms()
        torch.cuda.empty_cache()
        d = attempt("decoder", lambda: steps.Decoder("llama-3.1-8b"), need=5)
        if d:
            for batch, new, keys in ((1, 1, 1024), (16, 1, 2048), (64, 1, 2048), (128, 1, 1024), (1, 2048, 2048), (1, 8192, 8192), (32, 1, 8192), (8, 512, 512)):
                d.step(batch, new, keys, meter)
    if which in ("attention", "all"):
        operators.all_attention()
        torch.cuda.empty_cache()
        d = attempt("moe", lambda: steps.Decoder("qwen3-30b-a3b"), need=8)
        if d:
            for batch, new, keys in ((1, 1, 1024), (16, 1, 1024), (64, 1, 1024), (256, 1, 1024), (1, 4096, 4096)):
                d.step(batch, new, keys, meter)
    if which in ("grouped", "all"):
        operators.all_grouped()
        operators.all_elementwise()
        operators.all_convolutions()
        torch.cuda.empty_cache()
        attempt("training", lambda: steps.training(meter), need=10)
        attempt("hugging face", lambda: steps.hugging_face(meter), need=10)
    if which in ("power", "all"):
        power.all_power(meter)
        for name in ("qwen3-0.6b", "qwen3-4b"):
            torch.cuda.empty_cache()
            d = attempt(name, lambda: steps.Decoder(name), need=5)
            if d:
                for batch, new, keys in ((1, 1, 512), (32, 1, 2048), (1, 4096, 4096)):
                    d.step(batch, new, keys, meter)
    if which in ("products", "all"):
        operators.all_gemms()
        operators.all_grouped()
    if which in ("autoencoder", "all"):
        attempt("autoencoder", lambda: steps.autoencoder(meter), need=8)
    if which in ("decode", "all"):
        shapes = {"llama-3.1-8b": ((1, 1024), (16, 2048), (64, 2048), (128, 1024), (32, 8192)), "qwen3-30b-a3b": ((1, 1024), (16, 1024), (64, 1024), (256, 1024)),
                  "qwen3-4b": ((1, 512), (32, 2048), (128, 512)), "qwen3-0.6b": ((1, 512), (32, 2048))}
        for name, list_ in shapes.items():
            torch.cuda.empty_cache()
            d = attempt(name, lambda: steps.Decoder(name), need=5)
            for batch, keys in list_:
                if d:
                    d.step(batch, 1, keys, meter)
            del d
    if which in ("experts", "all"):
        import experts
        experts.all_experts()
    if which in ("copies", "all"):
        copies()
    print(f"{which} done after {time.time() - common.T0:.1f} s", flush=True)


main()
