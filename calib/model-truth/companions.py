"""What stands beside a denoiser: text encoders and the autoencoders of SANA, Wan and LTX, with random weights.

    companions.py OUTPUT [calibration] [encoders] [autoencoders]     (one GPU; METER is the index that NVML knows it by)

The shapes are the published ones (diffusers: AutoencoderDC, AutoencoderKLWan, AutoencoderKLLTXVideo; transformers:
T5EncoderModel, CLIPTextModel, Gemma2Model). Lines with use "calibration" are single convolutions and norms of other shapes.
"""
import json, os, sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import common
from common import Meter, attempt, emit, one_pass, open_output, timed

BF16 = torch.bfloat16


class ChannelNorm(nn.Module):
    """Root mean square over the channels of a channels-first tensor."""

    def __init__(self, c):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(c))

    def forward(self, x):
        shape = [1, -1] + [1] * (x.dim() - 2)
        return F.normalize(x, dim=1) * x.shape[1] ** 0.5 * self.gamma.view(shape)


class Causal(nn.Conv3d):
    """A convolution in space and time that takes two earlier frames from a cache."""

    def __init__(self, i, o, k):
        super().__init__(i, o, k, padding=(0, k[1] // 2, k[2] // 2))
        self.past = k[0] - 1

    def forward(self, x):
        if self.past:
            x = torch.cat([x.new_zeros(x.shape[0], x.shape[1], self.past, *x.shape[3:]), x], 2)
        return super().forward(x)


class WanBlock(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.n1, self.c1, self.n2, self.c2 = ChannelNorm(i), Causal(i, o, (3, 3, 3)), ChannelNorm(o), Causal(o, o, (3, 3, 3))
        self.s = Causal(i, o, (1, 1, 1)) if i != o else nn.Identity()

    def forward(self, x):
        return self.c2(F.silu(self.n2(self.c1(F.silu(self.n1(x)))))) + self.s(x)


class WanUp(nn.Module):
    def __init__(self, c, time):
        super().__init__()
        self.time = Causal(c, 2 * c, (3, 1, 1)) if time else None
        self.conv = nn.Conv2d(c, c // 2, 3, padding=1)

    def forward(self, x):
        b, c, t, h, w = x.shape
        if self.time is not None:
            x = self.time(x).view(b, 2, c, t, h, w)
            x = torch.stack((x[:, 0], x[:, 1]), 3).reshape(b, c, 2 * t, h, w)
            t *= 2
        x = x.permute(0, 2, 1, 3, 4).reshape(b * t, c, h, w)
        x = self.conv(F.interpolate(x.float(), scale_factor=2, mode="nearest-exact").to(x.dtype))
        return x.view(b, t, c // 2, 2 * h, 2 * w).permute(0, 2, 1, 3, 4)


class WanDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.start, self.m1, self.m2 = Causal(16, 384, (3, 3, 3)), WanBlock(384, 384), WanBlock(384, 384)
        self.an, self.qkv, self.o = ChannelNorm(384), nn.Conv2d(384, 1152, 1), nn.Conv2d(384, 384, 1)
        levels = []
        for i, (a, o) in enumerate(((384, 384), (192, 384), (192, 192), (96, 96))):
            levels += [WanBlock(a if j == 0 else o, o) for j in range(3)]
            if i < 3:
                levels.append(WanUp(o, i < 2))
        self.levels = nn.Sequential(*levels)
        self.en, self.end = ChannelNorm(96), Causal(96, 3, (3, 3, 3))

    def forward(self, z):
        x = self.m1(self.start(z))
        b, c, t, h, w = x.shape
        y = self.qkv(self.an(x).permute(0, 2, 1, 3, 4).reshape(b * t, c, h, w)).reshape(b * t, 1, 3 * c, -1).permute(0, 1, 3, 2).chunk(3, -1)
        y = F.scaled_dot_product_attention(*(v.contiguous() for v in y)).squeeze(1).permute(0, 2, 1).reshape(b * t, c, h, w)
        x = self.m2(x + self.o(y).view(b, t, c, h, w).permute(0, 2, 1, 3, 4))
        return self.end(F.silu(self.en(self.levels(x))))


class DcBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b, self.n = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1, bias=False), nn.RMSNorm(c)

    def forward(self, x):
        y = self.b(F.silu(self.a(x)))
        return x + self.n(y.movedim(1, -1)).movedim(-1, 1)


class DcVit(nn.Module):
    """Multi-scale linear attention, then a gated convolution."""

    def __init__(self, c, d=32):
        super().__init__()
        self.d, heads = d, c // d
        self.qkv = nn.Linear(c, 3 * c, bias=False)
        self.depth, self.mix = nn.Conv2d(3 * c, 3 * c, 5, padding=2, groups=3 * c, bias=False), nn.Conv2d(3 * c, 3 * c, 1, groups=3 * heads, bias=False)
        self.o, self.n = nn.Linear(2 * c, c, bias=False), nn.RMSNorm(c)
        self.up, self.dw, self.down = nn.Conv2d(c, 8 * c, 1), nn.Conv2d(8 * c, 8 * c, 3, padding=1, groups=8 * c), nn.Conv2d(4 * c, c, 1, bias=False)
        self.n2 = nn.RMSNorm(c)

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.qkv(x.movedim(1, -1)).movedim(-1, 1)
        y = torch.cat([y, self.mix(self.depth(y))], 1).reshape(b, -1, 3 * self.d, h * w)
        q, k, v = y.chunk(3, 2)
        q, k, v = F.relu(q), F.relu(k), F.pad(v, (0, 0, 0, 1), value=1)
        y = torch.matmul(torch.matmul(v, k.transpose(-1, -2)).float(), q.float())
        y = (y[:, :, :-1] / (y[:, :, -1:] + 1e-15)).to(x.dtype).reshape(b, -1, h, w)
        x = x + self.n(self.o(y.movedim(1, -1))).movedim(-1, 1)
        g, u = self.dw(F.silu(self.up(x))).chunk(2, 1)
        return x + self.n2(self.down(g * F.silu(u)).movedim(1, -1)).movedim(-1, 1)


class DcUp(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv, self.repeat = nn.Conv2d(i, o, 3, padding=1), o * 4 // i

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2)) + F.pixel_shuffle(x.repeat_interleave(self.repeat, 1), 2)


class DcDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        widths, parts = (1024, 1024, 512, 512, 256, 128), []
        for i, c in enumerate(widths):
            if i:
                parts.append(DcUp(widths[i - 1], c))
            parts += [(DcVit if i < 3 else DcBlock)(c) for _ in range(3)]
        self.start, self.parts = nn.Conv2d(32, 1024, 3, padding=1), nn.Sequential(*parts)
        self.n, self.end = nn.RMSNorm(128), nn.Conv2d(128, 3, 3, padding=1)

    def forward(self, z):
        x = self.parts(self.start(z) + z.repeat_interleave(32, 1))
        return self.end(F.relu(self.n(x.movedim(1, -1)).movedim(-1, 1)))


class LtxConv(nn.Conv3d):
    def __init__(self, i, o):
        super().__init__(i, o, 3, padding=(0, 1, 1))

    def forward(self, x):
        return super().forward(torch.cat([x[:, :, :1], x, x[:, :, -1:]], 2))


class LtxBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b, self.c = LtxConv(c, c), LtxConv(c, c), c

    def forward(self, x):
        norm = lambda t: F.rms_norm(t.movedim(1, -1), (self.c,)).movedim(-1, 1)
        return x + self.b(F.silu(norm(self.a(F.silu(norm(x))))))


class LtxUp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv = LtxConv(c, 4 * c)

    def forward(self, x):
        def spread(t):
            b, c, f, h, w = t.shape
            return t.reshape(b, c // 8, 2, 2, 2, f, h, w).permute(0, 1, 5, 2, 6, 3, 7, 4).flatten(6, 7).flatten(4, 5).flatten(2, 3)[:, :, 1:]
        return spread(self.conv(x)) + spread(x).repeat(1, 4, 1, 1, 1)


class LtxDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        parts, c = [LtxBlock(1024) for _ in range(5)], 1024
        for _ in range(3):
            parts.append(LtxUp(c))
            c //= 2
            parts += [LtxBlock(c) for _ in range(5)]
        self.start, self.parts, self.end = LtxConv(128, 1024), nn.Sequential(*parts), LtxConv(128, 48)

    def forward(self, z):
        x = self.parts(self.start(z))
        return self.end(F.silu(F.rms_norm(x.movedim(1, -1), (128,)).movedim(-1, 1)))


def run(meter, ident, make, inputs, shape, how, dtype=BF16):
    def body():
        t, rest = one_pass(meter, make, dtype, inputs)
        emit("truth", shape.pop("kind"), ident, t, shape, how, **rest)
        print(ident, t[0], rest["peak_bytes"] / 1e9, flush=True)
    attempt(ident, body, need=4)


def encoders(meter):
    import transformers as tf

    class Ids(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, ids):
            return self.model(input_ids=ids, use_cache=False).last_hidden_state if self.cached else self.model(input_ids=ids).last_hidden_state

    def t5():
        m = Ids(tf.T5EncoderModel(tf.T5Config(vocab_size=32128, d_model=4096, d_kv=64, d_ff=10240, num_layers=24, num_heads=64, feed_forward_proj="gated-gelu")))
        m.cached = False
        return m

    def clip():
        m = Ids(tf.CLIPTextModel(tf.CLIPTextConfig(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12)))
        m.cached = False
        return m

    def gemma():
        m = Ids(tf.Gemma2Model(tf.Gemma2Config(hidden_size=2304, intermediate_size=9216, num_hidden_layers=26, num_attention_heads=8, num_key_value_heads=4,
                                               head_dim=256, vocab_size=256000)))
        m.cached = True
        return m

    for name, make, tokens in (("t5-xxl", t5, (128, 512)), ("clip-l", clip, (77,)), ("gemma-2-2b", gemma, (300,))):
        for n in tokens:
            run(meter, f"encoder.{name}.{n}", make, lambda: torch.randint(0, 30000, (1, n), device="cuda"),
                dict(kind="encoder", model=name, batch=1, tokens=n, dtype="bf16"), "transformers, random weights, CUDA graph")


def autoencoders(meter):
    how = "PyTorch, channels first, CUDA graph"
    rand = lambda *s: (lambda: torch.randn(*s, device="cuda", dtype=BF16))
    for side in (512, 1024):
        run(meter, f"autoencoder.sana.{side}", DcDecoder, rand(1, 32, side // 32, side // 32), dict(kind="autoencoder", family="sana", width=side, height=side, frames=1, dtype="bf16"), how)
    for w, h in ((832, 480), (416, 240)):
        run(meter, f"autoencoder.wan.{w}x{h}", WanDecoder, rand(1, 16, 1, h // 8, w // 8), dict(kind="autoencoder", family="wan", width=w, height=h, frames=4, dtype="bf16"),
            how + ", one latent frame with cached frames before it")
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    run(meter, "autoencoder.wan.832x480.fp32", WanDecoder, lambda: torch.randn(1, 16, 1, 60, 104, device="cuda"),
        dict(kind="autoencoder", family="wan", width=832, height=480, frames=4, dtype="fp32"), how + ", fp32 with TF32 products, one latent frame", torch.float32)
    for w, h, f in ((768, 512, 49), (704, 480, 25)):
        run(meter, f"autoencoder.ltx.{w}x{h}x{f}", LtxDecoder, rand(1, 128, (f - 1) // 8 + 1, h // 32, w // 32),
            dict(kind="autoencoder", family="ltx", width=w, height=h, frames=f, dtype="bf16"), how)


def calibration():
    def conv(dims, c, o, side, frames, k, dtype=BF16):
        def body():
            shape = (1, c, side, side) if dims == 2 else (1, c, frames, side, side)
            x = torch.randn(*shape, device="cuda", dtype=dtype)
            w = torch.randn(o, c, *k, device="cuda", dtype=dtype) * 0.02
            fn = F.conv2d if dims == 2 else F.conv3d
            pad = tuple(n // 2 for n in k)
            t = timed(lambda i: fn(x, w, padding=pad))
            label = "bf16" if dtype == BF16 else "tf32"
            emit("calibration", "conv", f"conv{dims}d.{c}.{o}.{side}.{frames}.{'x'.join(map(str, k))}.{label}", t,
                 dict(dims=dims, channels=c, out=o, side=side, frames=frames, kernel=list(k), dtype=label), "cuDNN, channels first")
        attempt(f"conv {dims} {c} {o} {side} {k}", body)
    for c, side in ((64, 512), (160, 320), (320, 96), (640, 48)):
        conv(2, c, c, side, 1, (3, 3))
        conv(2, c, c, side, 1, (1, 1))
        conv(3, c, c, side // 2, 5, (3, 3, 3))
        conv(3, c, c, side // 2, 5, (3, 3, 3), torch.float32)
    for c, side in ((256, 256), (512, 96)):
        x = torch.randn(1, c, side, side, device="cuda", dtype=BF16)
        for name, fn in (("silu", lambda: F.silu(x)), ("normalize", lambda: F.normalize(x, dim=1)), ("upsample", lambda: F.interpolate(x, scale_factor=2)),
                         ("depthwise", None)):
            def body():
                if name == "depthwise":
                    w = torch.randn(c, 1, 3, 3, device="cuda", dtype=BF16)
                    t = timed(lambda i: F.conv2d(x, w, padding=1, groups=c))
                else:
                    t = timed(lambda i: fn())
                emit("calibration", "map", f"{name}.{c}.{side}", t, dict(channels=c, side=side, dtype="bf16"), "PyTorch, channels first")
            attempt(f"{name} {c}", body)


def main():
    open_output(sys.argv[1])
    print(json.dumps(common.environment()), flush=True)
    meter = Meter(int(os.environ.get("METER", "0")))
    which = sys.argv[2:] or ["calibration", "encoders", "autoencoders"]
    if "calibration" in which:
        calibration()
    if "encoders" in which:
        encoders(meter)
    if "autoencoders" in which:
        autoencoders(meter)


main()
