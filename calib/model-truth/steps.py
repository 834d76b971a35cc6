"""Whole steps of language models with random weights: layers in PyTorch, captured in a CUDA graph; and Hugging Face models."""
import time
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from common import attempt, capture, emit, one_pass, timed_graph

BF16 = torch.bfloat16
MODELS = {  # layers, hidden, heads, kv heads, head dim, ffn, vocabulary, experts, chosen, norm of q and k
    "llama-3.1-8b": (32, 4096, 32, 8, 128, 14336, 128256, 0, 0, False),
    "qwen3-0.6b": (28, 1024, 16, 8, 128, 3072, 151936, 0, 0, True),
    "qwen3-4b": (36, 2560, 32, 8, 128, 9728, 151936, 0, 0, True),
    "qwen3-30b-a3b": (48, 2048, 32, 4, 128, 768, 151936, 128, 8, True),
}


def rope(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Decoder:
    def __init__(self, name, tp=1, reduce=None, layers=None):
        (self.layers, self.h, hq, hk, self.d, ffn, self.vocab, self.experts, self.chosen, self.qknorm) = MODELS[name]
        self.layers = layers or self.layers
        self.name, self.tp, self.reduce = name, tp, reduce
        self.hq, self.hk, self.ffn = hq // tp, max(1, hk // tp), ffn // tp
        def w(*s):
            return torch.empty(*s, device="cuda", dtype=BF16).normal_(0, 0.02)
        self.w = []
        for _ in range(self.layers):
            layer = dict(n1=w(self.h), n2=w(self.h), qkv=w((self.hq + 2 * self.hk) * self.d, self.h), o=w(self.h, self.hq * self.d))
            if self.qknorm:
                layer.update(qn=w(self.d), kn=w(self.d))
            if self.experts:
                layer.update(router=w(self.experts, self.h), up=w(self.experts, 2 * self.ffn, self.h), down=w(self.experts, self.h, self.ffn))
            else:
                layer.update(up=w(2 * self.ffn, self.h), down=w(self.h, self.ffn))
            self.w.append(layer)
        self.embed, self.final, self.head = w(self.vocab, self.h), w(self.h), w(self.vocab // tp, self.h)
        c = torch.compile  # shapes become dynamic after the first change
        self.pre, self.mid, self.act, self.fin = c(self._pre), c(self._mid), c(self._act), c(self._fin)
        self.moe = c(self._moe_in), c(self._moe_out)

    def _pre(self, x, l, cos, sin):
        b, t, _ = x.shape
        y = F.linear(F.rms_norm(x, (self.h,), l["n1"], 1e-5), l["qkv"]).view(b, t, -1, self.d).transpose(1, 2)
        q, k, v = y.split([self.hq, self.hk, self.hk], 1)
        if self.qknorm:
            q, k = F.rms_norm(q, (self.d,), l["qn"], 1e-5), F.rms_norm(k, (self.d,), l["kn"], 1e-5)
        return rope(q, cos, sin).contiguous(), rope(k, cos, sin), v

    def _mid(self, x, y, n2):
        x = x + y
        return x, F.rms_norm(x, (self.h,), n2, 1e-5)

    def _act(self, u):
        g, u = u.chunk(2, -1)
        return F.silu(g) * u

    def _fin(self, x, y):
        return x + y

    def _moe_in(self, m, router):
        p, idx = torch.softmax(F.linear(m, router).float(), -1).topk(self.chosen, -1)
        order = idx.flatten().argsort()
        ends = torch.searchsorted(idx.flatten()[order], torch.arange(self.experts, device="cuda"), right=True).to(torch.int32)
        return p.flatten()[order].to(BF16), order // self.chosen, ends

    def _moe_out(self, m, y, p, rows):
        return torch.zeros_like(m).index_add(0, rows, y * p[:, None])

    def mlp(self, m, l):
        if not self.experts:
            return F.linear(self.act(F.linear(m, l["up"])), l["down"])
        b, t, _ = m.shape
        m = m.reshape(b * t, -1)
        p, rows, ends = self.moe[0](m, l["router"])
        u = torch._grouped_mm(m[rows], l["up"].transpose(1, 2), offs=ends)
        y = torch._grouped_mm(self.act(u), l["down"].transpose(1, 2), offs=ends)
        return self.moe[1](m, y, p, rows).view(b, t, -1)

    def caches(self, batch, keys):
        return [(torch.empty(batch, self.hk, keys, self.d, device="cuda", dtype=BF16).normal_(0, 1),
                 torch.empty(batch, self.hk, keys, self.d, device="cuda", dtype=BF16).normal_(0, 1)) for _ in range(self.layers)]

    def forward(self, ids, caches, cos, sin, backend):
        x = F.embedding(ids, self.embed)
        for l, (ck, cv) in zip(self.w, caches):
            q, k, v = self.pre(x, l, cos, sin)
            t = q.shape[2]
            ck[:, :, -t:].copy_(k)
            cv[:, :, -t:].copy_(v)
            with sdpa_kernel(backend):
                y = F.scaled_dot_product_attention(q, ck, cv, is_causal=t > 1, enable_gqa=self.hq != self.hk)
            y = F.linear(y.transpose(1, 2).reshape(x.shape[0], t, -1), l["o"])
            if self.reduce:
                self.reduce(y)
            x, m = self.mid(x, y, l["n2"])
            z = self.mlp(m, l)
            if self.reduce:
                self.reduce(z)
            x = self.fin(x, z)
        return F.linear(F.rms_norm(x[:, -1:], (self.h,), self.final, 1e-5), self.head)

    def step(self, batch, new, keys, meter=None, use="truth", mode="global", ranks=1):
        """One step: `new` tokens for each of `batch` sequences, `keys` keys in all."""
        ids = torch.randint(0, self.vocab, (batch, new), device="cuda")
        caches = self.caches(batch, keys)
        cos, sin = torch.rand(new, self.d // 2, device="cuda", dtype=BF16), torch.rand(new, self.d // 2, device="cuda", dtype=BF16)
        best = None
        for backend, label in ((SDPBackend.CUDNN_ATTENTION, "cudnn"), (SDPBackend.FLASH_ATTENTION, "flash")):
            def body():
                g = capture(lambda i: self.forward(ids, caches, cos, sin, backend), 1, mode)
                return timed_graph(g, 1, 7), g, label
            r = attempt(f"step {self.name} {batch}x{new} over {keys} {label}", body, need=3)
            if r:
                best = r
                break
        if not best:
            return
        t, g, label = best
        joules = clock = None
        if meter:
            metered = attempt("energy", lambda: meter.steady(g, 1.1, 0.5), need=3)
            if metered:
                joules, sustained, clock = metered
        phase = "decode" if new == 1 else "prefill"
        emit(use, "step", f"step.{self.name}.{phase}.tp{self.tp}.{batch}x{new}.{keys}", t,
             dict(model=self.name, layers=self.layers, phase=phase, batch=batch, new=new, keys=keys, tp=self.tp, dtype="bf16"),
             f"PyTorch layers (compiled element-wise parts, cuBLAS, {label} attention) in one CUDA graph, random weights",
             joules=joules, joules_seconds=sustained if joules else None, clock=clock)


def hugging_face(meter):
    from transformers import AutoModelForCausalLM, BertConfig, BertModel, LlamaConfig, ViTConfig, ViTModel

    def run(name, model, inputs, shape):
        def body():
            with torch.no_grad():
                try:
                    g, how = capture(lambda i: model(**inputs), 1), "CUDA graph"
                except Exception as error:
                    print(name, "not captured:", str(error)[:150], flush=True)
                    torch.cuda.synchronize()
                    g, how = type("Eager", (), {"replay": lambda self: model(**inputs)})(), "eager"
                t = timed_graph(g, 1, 7)
                joules, sustained, clock = meter.steady(g, 1.2)
            emit("truth", "step", f"step.hf.{name}.{shape['batch']}x{shape['new']}", t, dict(model=name, **shape, dtype="bf16"),
                 f"transformers, random weights, {how}", joules=joules, joules_seconds=sustained, clock=clock)
        attempt(f"hf {name}", body, need=6)

    def bert():
        m = BertModel(BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)).to("cuda", BF16).eval()
        for b, s in ((32, 512), (1, 128)):
            run("bert-large", m, dict(input_ids=torch.randint(0, 30522, (b, s), device="cuda")), dict(phase="encode", batch=b, new=s, keys=s))
    def vit():
        m = ViTModel(ViTConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)).to("cuda", BF16).eval()
        run("vit-large", m, dict(pixel_values=torch.rand(64, 3, 224, 224, device="cuda", dtype=BF16)), dict(phase="encode", batch=64, new=197, keys=197))
    attempt("bert", bert, need=8)
    attempt("vit", vit, need=8)

    def llama():
        cfg = LlamaConfig(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
                          vocab_size=128256, max_position_embeddings=16384)
        with torch.device("cuda"):
            torch.set_default_dtype(BF16)
            m = AutoModelForCausalLM.from_config(cfg).eval()
            torch.set_default_dtype(torch.float32)
        ids = torch.randint(0, 1000, (1, 4096), device="cuda")
        run("llama-3.1-8b", m, dict(input_ids=ids, use_cache=False, logits_to_keep=1), dict(phase="prefill", batch=1, new=4096, keys=4096))
    attempt("hf llama", llama, need=12)


def training(meter):
    """One optimizer step of a 1.2 G Llama-shaped model: time, peak memory, joules."""
    from transformers import AutoModelForCausalLM, LlamaConfig
    cfg = LlamaConfig(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, head_dim=64,
                      vocab_size=128256, max_position_embeddings=8192, tie_word_embeddings=True)
    for batch, seq, checkpoint in ((4, 2048, False), (4, 2048, True), (1, 8192, False)):
        def body():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            with torch.device("cuda"):
                torch.set_default_dtype(BF16)
                m = AutoModelForCausalLM.from_config(cfg)
                torch.set_default_dtype(torch.float32)
            if checkpoint:
                m.gradient_checkpointing_enable()
            m.train()
            opt = torch.optim.AdamW(m.parameters(), fused=True)
            ids = torch.randint(0, 1000, (batch, seq), device="cuda")
            times = []
            for i in range(8):
                torch.cuda.synchronize()
                if i == 4:
                    j0, w0 = meter.joules(), time.time()
                t = time.time()
                m(input_ids=ids, labels=ids, use_cache=False).loss.backward()
                opt.step()
                opt.zero_grad(set_to_none=True)
                torch.cuda.synchronize()
                times.append(time.time() - t)
            joules = (meter.joules() - j0) / 4
            s = sorted(times[3:])
            emit("truth", "train", f"train.llama-1b.{batch}x{seq}{'.checkpoint' if checkpoint else ''}", (s[len(s) // 2], s[0], s[-1], len(s)),
                 dict(model="llama-3.2-1b", batch=batch, seq=seq, recompute="full" if checkpoint else "none", dtype="bf16"),
                 "transformers, eager, bf16 weights and states, fused AdamW, sdpa attention", joules=joules,
                 peak_bytes=torch.cuda.max_memory_allocated(), parameters=sum(p.numel() for p in m.parameters()))
        attempt(f"train {batch}x{seq} {checkpoint}", body, need=8)


class Autoencoder(torch.nn.Module):
    """The decoder of the FLUX and SD3 autoencoder: widths 512, 512, 256, 128, three residual blocks a level."""

    class Block(torch.nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.n1, self.c1 = torch.nn.GroupNorm(32, i), torch.nn.Conv2d(i, o, 3, padding=1)
            self.n2, self.c2 = torch.nn.GroupNorm(32, o), torch.nn.Conv2d(o, o, 3, padding=1)
            self.s = torch.nn.Conv2d(i, o, 1) if i != o else torch.nn.Identity()

        def forward(self, x):
            return self.s(x) + self.c2(F.silu(self.n2(self.c1(F.silu(self.n1(x))))))

    def __init__(self, latent=16):
        super().__init__()
        B = self.Block
        self.start = torch.nn.Conv2d(latent, 512, 3, padding=1)
        self.m1, self.m2, self.an = B(512, 512), B(512, 512), torch.nn.GroupNorm(32, 512)
        self.qkv, self.o = torch.nn.Linear(512, 1536), torch.nn.Linear(512, 512)
        self.levels, width = torch.nn.ModuleList(), 512
        for level, out in enumerate((512, 512, 256, 128)):
            blocks = [B(width if i == 0 else out, out) for i in range(3)]
            if level < 3:
                blocks += [torch.nn.Upsample(scale_factor=2), torch.nn.Conv2d(out, out, 3, padding=1)]
            self.levels.append(torch.nn.Sequential(*blocks))
            width = out
        self.end_norm, self.end = torch.nn.GroupNorm(32, 128), torch.nn.Conv2d(128, 3, 3, padding=1)

    def forward(self, z):
        x = self.m1(self.start(z))
        b, c, h, w = x.shape
        y = self.qkv(self.an(x).flatten(2).transpose(1, 2)).chunk(3, -1)
        y = F.scaled_dot_product_attention(*(t[:, None] for t in y))[:, 0]
        x = self.m2(x + self.o(y).transpose(1, 2).view(b, c, h, w))
        for level in self.levels:
            x = level(x)
        return self.end(F.silu(self.end_norm(x)))


def autoencoder(meter):
    for side in (512, 1024):
        def body():
            z = lambda: torch.randn(1, 16, side // 8, side // 8, device="cuda", dtype=BF16)
            t, rest = one_pass(meter, Autoencoder, BF16, z)
            emit("truth", "autoencoder", f"autoencoder.flux.{side}", t, dict(family="flux", side=side, dtype="bf16"), "PyTorch, channels first, CUDA graph", **rest)
        attempt(f"autoencoder {side}", body, need=4)
