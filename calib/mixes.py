#!/usr/bin/env python3
"""Writes a CUDA program that times mixes of instructions: which of them a sub-core issues side by side.

    calib/mixes.py > mixes.cu && nvcc -O3 -w -arch=sm_90a -o mixes mixes.cu && ./mixes

A mix is a word of letters, an operation each (OPERATIONS below), repeated until the loop's body has so many. One SM runs it with 16 and with 32
warps, 200 turns; a JSON line a launch says how many cycles of a sub-core a turn of one warp took ("cycles"), with the loop's own three or four
instructions. ptxas decides what becomes of an operation (a product of 64 bits and a sum is often two instructions more): look at the machine code
before you say what a mix shows.
"""

MIXES = """
Y*96 YF*96 YFF*96 YFFFF*96 YFFFFFF*96 YL*96 YLL*96 YLLL*96 YI*96 YII*96 YYL*96 YYF*96 YYLF*96 YLF*96 YLFF*96 M*96 MF*96 ML*96 MI*96 H*96 YH*96 YHH*96 HL*96 HF*96
J*24 JF*24 JL*24 N*24 NF*24 NFF*24 NL*24 NLL*24 NA*24 NI*24 NNL*24
g*6 gF*12 gFF*18 gFFFF*30 gL*12 gLL*18 gLLLL*30 gI*12 gII*18 gN*12 gNN*18 w*6 wF*12 wFF*18 wFFFF*30 wL*12 wLL*18 wI*12
u*24 uF*24 uFF*24 uL*24 uN*24 uI*24 c*24 uc*24 ucN*24 ucw*18 cw*12 cwF*18 ucwF*24
F*24 L*24 LF*24 I*24 A*24 S*24 SF*24 SL*24 X*24 XL*24 XF*24 p*24 pF*24 pL*24 d*24 dF*24 dL*24 e*24 eF*24
s*6 sF*12 sFF*18 sFFFF*30 sN*12 sL*12 sLL*18 gs*12 gsFF*24 t*6 tF*12 tFF*18 tL*12 h*6 hF*12 hFF*18 hFFFF*30 hL*12
""".split()

# By letter: what it does to registers number R, the next (N) and the one after (O) of six of a kind.
OPERATIONS = {
    "F": 'asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x[R]) : "f"(y), "f"(z));',
    "L": 'asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(u[R]) : "r"(a), "r"(b));',
    "S": 'asm volatile("shf.l.wrap.b32 %0, %0, %1, 3;" : "+r"(u[R]) : "r"(a));',
    "A": 'asm volatile("add.u32 %0, %0, %1;" : "+r"(u[R]) : "r"(u[N]));',
    "I": 'asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(v[R]) : "r"(a), "r"(b));',
    "M": 'asm volatile("mul.hi.u32 %0, %0, %1;" : "+r"(v[R]) : "r"(v[N]));',
    "H": 'asm volatile("fma.rn.f16x2 %0, %0, %1, %1;" : "+r"(h[R]) : "r"(a));',
    "X": 'asm volatile("add.u64 %0, %0, %1;" : "+l"(q[R]) : "l"(q[N]));',
    # Products of 64 bits: of halves of two others; of the own upper half and with a sum; of four times a word and with a sum (shifts and sums).
    "Y": 'asm volatile("mul.wide.u32 %0, %1, %2;" : "=l"(q[R]) : "r"(unsigned(q[N])), "r"(unsigned(q[O] >> 32)));',
    "N": 'asm volatile("mad.wide.s32 %0, %1, 12, %2;" : "=l"(q[R]) : "r"(unsigned(q[R] >> 32)), "l"(q[N]));',
    "J": 'asm volatile("mad.wide.s32 %0, %1, 4, %0;" : "+l"(q[R]) : "r"(v[N])); v[R] = unsigned(q[R]);',
    # Of registers that all lanes share: logic; a product with one.
    "u": 'asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(shared_by_all[R]) : "r"(shared_by_all[N]), "r"(more));',
    "c": 'asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(v[R]) : "r"(shared_by_all[R]), "r"(v[N]));',
    "p": 'asm volatile("{ .reg .pred p; setp.lt.f32 p, %0, %1; @p add.f32 %0, %0, %2; }" : "+f"(x[R]) : "f"(y), "f"(z));',
    "d": 'asm volatile("{ .reg .u32 t; max.s32 t, %0, %1; add.s32 %0, t, %2; }" : "+r"(u[R]) : "r"(a), "r"(b));',
    "e": 'asm volatile("{ .reg .f32 t; max.f32 t, %0, %1; add.f32 %0, t, %2; }" : "+f"(x[R]) : "f"(y), "f"(z));',
    # Loads that L1 has (4 bytes a lane at an offset, at an index, 16 bytes), of shared memory, with a sum; stores to shared memory.
    "g": 'asm volatile("ld.global.f32 %0, [%1 + R * 128];" : "=f"(got[R][0]) : "l"(p)); sums[R][0] += got[R][0];',
    "w": 'asm volatile("{ .reg .u64 t; mad.wide.s32 t, %1, 4, %2; ld.global.f32 %0, [t]; }" : "=f"(got[R][0]) : "r"(w[R]), "l"(p)); sums[R][0] += got[R][0];',
    "h": 'asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4 + R * 512];" : "=f"(got[R][0]), "=f"(got[R][1]), "=f"(got[R][2]), "=f"(got[R][3]) : "l"(p)); '
         "for (int i = 0; i < 4; i++) sums[R][i] += got[R][i];",
    "s": 'asm volatile("ld.shared.f32 %0, [%1 + R * 128];" : "=f"(got[R][0]) : "r"(room_at)); sums[R][0] += got[R][0];',
    "t": 'asm volatile("st.shared.f32 [%0 + R * 128], %1;" :: "r"(room_at), "f"(x[R]) : "memory");',
}

TURNS = 200


def kernel(number, mix):
    word, count = mix.split("*")
    body, used = [], {}
    while len(body) < int(count):
        for letter in word:
            r = used.get(letter, 0) % 6
            used[letter] = used.get(letter, 0) + 1
            text = OPERATIONS[letter].replace("R * 128", str(r * 128)).replace("R * 512", str(r * 512))
            for name, value in (("[R]", r), ("[N]", (r + 1) % 6), ("[O]", (r + 2) % 6)):
                text = text.replace(name, f"[{value}]")
            body.append(text)
    each_turn = [text for letters, text in (("gh", "p += step;"), ("st", "room_at += step;"), ("w", "for (int i = 0; i < 6; i++) w[i] += step;")) if any(c in word for c in letters)]
    lines = "\n    ".join(each_turn + body)
    return f"""__global__ void mix{number}(unsigned long long* cycles, unsigned* out, const float* from, unsigned a, unsigned b, unsigned more, int step, float y, float z) {{
  __shared__ float room[2048];
  unsigned u[6], v[6], h[6], shared_by_all[6];
  int w[6];
  float x[6], sums[6][4] = {{}}, got[6][4];
  unsigned long long q[6];
  for (int i = threadIdx.x; i < 2048; i += blockDim.x) room[i] = i;
  for (int i = 0; i < 6; i++) {{
    u[i] = threadIdx.x + i, v[i] = u[i] * 3, h[i] = u[i], shared_by_all[i] = a * i + b, w[i] = step * i, x[i] = u[i], q[i] = u[i] * 0x123456789ull;
  }}
  const float* p = from + threadIdx.x % 32{" * 4" if "h" in word else ""};
  unsigned room_at = unsigned(__cvta_generic_to_shared(room + threadIdx.x % 32));
  __syncthreads();
  const unsigned long long begin = clock64();
#pragma unroll 1
  for (int turn = 0; turn < {TURNS}; turn++) {{
    {lines}
  }}
  __syncthreads();
  const unsigned long long end = clock64();
  unsigned s = unsigned(room[threadIdx.x]);
  for (int i = 0; i < 6; i++)
    s += u[i] ^ v[i] ^ h[i] ^ shared_by_all[i] ^ unsigned(x[i]) ^ unsigned(sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3]) ^ unsigned(q[i]) ^ unsigned(q[i] >> 32);
  out[threadIdx.x] = s;
  if (threadIdx.x == 0) *cycles = end - begin;
}}
"""


def main():
    print("// Written by calib/mixes.py.\n#include <cuda_runtime.h>\n\n#include <cstdio>\n")
    for number, mix in enumerate(MIXES):
        print(kernel(number, mix))
    print("""int main() {
  unsigned long long *cycles, taken = 0;
  unsigned* out;
  float* from;
  cudaMalloc(&from, 1 << 20), cudaMemset(from, 0, 1 << 20), cudaMalloc(&cycles, 8), cudaMalloc(&out, 4096);""")
    for number, mix in enumerate(MIXES):
        print(f"""  for (int warps : {{16, 32}}) {{
    for (int k = 0; k < 2; k++) mix{number}<<<1, warps * 32>>>(cycles, out, from, 5, 9, 7, 0, .5f, .25f);
    if (cudaMemcpy(&taken, cycles, 8, cudaMemcpyDefault) != cudaSuccess) return 1;
    std::printf("{{\\"mix\\":\\"{mix}\\",\\"warps\\":%d,\\"cycles\\":%.2f}}\\n", warps, double(taken) / ({TURNS} * warps / 4));
  }}""")
    print("}")


main()
