"""Timing and energy of GPU work for the measurements of the model scale.

A measurement is one JSON line: id, use ("calibration" feeds profiles, "truth" is only compared with), kind, the shape,
seconds (median), min, max, n, and joules where a steady loop was metered. Calls are captured in a CUDA graph so that the host
adds nothing; weights rotate over copies larger than L2 so that they come from memory, as in a layer of a model.
"""
import gc, json, os, statistics, sys, time, traceback
import torch

BF16 = torch.bfloat16
T0 = time.time()
OUT = None
DEADLINE = T0 + float(os.environ.get("MEASURE_SECONDS", "90"))


def open_output(path):
    global OUT
    OUT = open(path, "w", buffering=1)


def left():
    return DEADLINE - time.time()


def emit(use, kind, ident, seconds, shape, how, **extra):
    med, lo, hi, n = seconds
    row = dict(id=ident, use=use, kind=kind, **shape, seconds=med, min=lo, max=hi, samples=n, how=how)
    row.update({k: v for k, v in extra.items() if v is not None})
    OUT.write(json.dumps(row) + "\n")


def attempt(label, body, need=0.5):
    """Runs body; a failure is a line of the log and never ends the run."""
    if left() < need:
        print(f"{time.time() - T0:6.1f} skipped {label}", flush=True)
        return None
    try:
        return body()
    except Exception as error:  # noqa: BLE001: anything that a library throws
        print(f"{time.time() - T0:6.1f} FAILED {label}: {type(error).__name__} {str(error)[:300]}", flush=True)
        if os.environ.get("MEASURE_TRACE"):
            traceback.print_exc()
        try:
            torch.cuda.synchronize()
        except Exception as fatal:
            print("device lost:", fatal, flush=True)
            sys.exit(1)
        return None


def one_pass(meter, make, dtype, inputs):
    """Time of a pass of the model that `make` builds, and what else emit() takes of it: joules, peak bytes beside what ran before."""
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    with torch.device("cuda"):
        model = make().to(dtype).eval()
    x = inputs()
    with torch.no_grad():
        torch.cuda.reset_peak_memory_stats()
        model(x)
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - before
        g = capture(lambda i: model(x), 1)
        t = timed_graph(g, 1, 5)
        joules, sustained, clock = meter.steady(g, 1.0, 0.4)
    return t, dict(joules=joules, joules_seconds=sustained, clock=clock, peak_bytes=peak, parameters=sum(p.numel() for p in model.parameters()))


def capture(fn, count, mode="global"):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for i in range(2):
            fn(i)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        for i in range(count):
            fn(i)
    graph.replay()
    torch.cuda.synchronize()
    return graph


def timed_graph(graph, count, reps=7):
    times = []
    for _ in range(reps):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        graph.replay()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b) / 1e3 / count)
    return statistics.median(times), min(times), max(times), reps


def estimate(fn):
    fn(0)
    torch.cuda.synchronize()
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    fn(1)
    b.record()
    b.synchronize()
    return max(1e-6, a.elapsed_time(b) / 1e3)


def timed(fn, span=6e-3, reps=5, least=4, most=64, mode="global"):
    count = int(min(most, max(least, span / estimate(fn))))
    return timed_graph(capture(fn, count, mode), count, reps)


class Meter:
    """Board energy of one GPU by the driver's counter."""

    def __init__(self, index):
        import pynvml
        self.nvml = pynvml
        pynvml.nvmlInit()
        self.handle = pynvml.nvmlDeviceGetHandleByIndex(index)

    def joules(self):
        return self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle) / 1e3

    def clock(self):
        return self.nvml.nvmlDeviceGetClockInfo(self.handle, 1)

    def steady(self, graph, seconds=1.5, warm=0.6):
        """Replays a graph for a while; returns joules and seconds of one replay and the mean SM clock."""
        def spin(span):
            done, clocks, start = 0, [], time.time()
            while time.time() - start < span:
                for _ in range(batch):
                    graph.replay()
                done += batch
                torch.cuda.synchronize()
                clocks.append(self.clock())
            return done, time.time() - start, sum(clocks) / len(clocks)
        batch = 1
        start = time.time()
        graph.replay()
        torch.cuda.synchronize()
        batch = max(1, int(0.1 / max(1e-5, time.time() - start)))
        spin(warm)
        # The counter moves in steps: start and end on a step.
        edge = self.joules()
        t = time.time()
        while self.joules() == edge and time.time() - t < 0.3:
            graph.replay()
            torch.cuda.synchronize()
        before, began = self.joules(), time.time()
        done, _, clock = spin(seconds)
        edge = self.joules()
        while self.joules() == edge and time.time() - began < seconds + 0.3:
            graph.replay()
            torch.cuda.synchronize()
            done += 1
        span = time.time() - began
        return (self.joules() - before) / done, span / done, clock

    def idle(self, seconds=1.5):
        before, began = self.joules(), time.time()
        time.sleep(seconds)
        return (self.joules() - before) / (time.time() - began)


def copies_for(nbytes, total=256e6, most=24):
    return int(min(most, max(1, -(-total // nbytes))))


def environment():
    import platform
    p = torch.cuda.get_device_properties(0)
    return dict(gpu=p.name, sms=p.multi_processor_count, memory=p.total_memory, l2=p.L2_cache_size, torch=torch.__version__,
                cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version(), nccl=str(torch.cuda.nccl.version()),
                python=platform.python_version(), host_cpus=os.cpu_count())
