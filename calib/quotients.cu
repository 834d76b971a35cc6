// calib/quotients.cu: what quotients and roots take by their operands. ptxas makes each of them some instructions for ordinary
// operands and a test that calls a function for others (zero, denormal, infinite, huge, tiny).
//
//   nvcc -arch=sm_90 -o quotients calib/quotients.cu
//   ncu --clock-control none --metrics smsp__inst_executed.sum,sm__cycles_elapsed.max --csv --page raw ./quotients counts
//   ./quotients map            # of f32 quotients: which pairs of exponents call
//
// `counts` launches one warp for each operation and pair of operands and prints a line for each launch, in their order: operation, operands as
// hexadecimal, cycles from the operands to the result. `map` prints, for each exponent field of the numerator, those of the denominator (from..to)
// whose quotient takes longer than twice the least, for mantissas 1.0 and 1.99 of both.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#define OPERATIONS(X) \
  X(div_f32, float, "div.rn.f32 %0, %1, %2;", "f") \
  X(rcp_f32, float, "rcp.rn.f32 %0, %1; // %2", "f") \
  X(sqrt_f32, float, "sqrt.rn.f32 %0, %1; // %2", "f") \
  X(div_f64, double, "div.rn.f64 %0, %1, %2;", "d") \
  X(rcp_f64, double, "rcp.rn.f64 %0, %1; // %2", "d") \
  X(sqrt_f64, double, "sqrt.rn.f64 %0, %1; // %2", "d") \
  X(div_u64, uint64_t, "div.u64 %0, %1, %2;", "l") \
  X(rem_u64, uint64_t, "rem.u64 %0, %1, %2;", "l") \
  X(div_s64, uint64_t, "div.s64 %0, %1, %2;", "l") \
  X(rem_s64, uint64_t, "rem.s64 %0, %1, %2;", "l") \
  X(div_u32, uint32_t, "div.u32 %0, %1, %2;", "r") \
  X(rem_s32, uint32_t, "rem.s32 %0, %1, %2;", "r")

#define KERNEL(NAME, TYPE, TEXT, LETTER) \
  __global__ void NAME(const TYPE* a, const TYPE* b, TYPE* out, long long* cycles) { \
    const TYPE x = a[threadIdx.x], y = b[threadIdx.x]; \
    TYPE r; \
    const long long begin = clock64(); \
    asm volatile(TEXT : "=" LETTER(r) : LETTER(x), LETTER(y)); \
    out[threadIdx.x] = r; \
    __threadfence_block(); \
    if (threadIdx.x == 0) *cycles = clock64() - begin; \
  }
OPERATIONS(KERNEL)

__global__ void map_div(float mantissa_a, float mantissa_b, uint32_t* cycles) {  // block: exponent of the numerator
  const uint32_t ea = blockIdx.x;
  for (uint32_t eb = 0; eb < 256; eb++) {
    const float a = __uint_as_float(ea << 23 | (__float_as_uint(mantissa_a) & 0x7fffff)), b = __uint_as_float(eb << 23 | (__float_as_uint(mantissa_b) & 0x7fffff));
    float r;
    uint32_t begin, end;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(begin)::"memory");
    asm volatile("div.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    asm volatile("{ .reg .pred p; setp.eq.f32 p, %1, 0f12345678; @p trap; mov.u32 %0, %%clock; }" : "=r"(end) : "f"(r) : "memory");
    if (threadIdx.x == 0) cycles[ea * 256 + eb] = end - begin;
  }
}

template <class T>
T of_bits(uint64_t bits) {
  T v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}

template <class T>
void run(const char* name, void (*kernel)(const T*, const T*, T*, long long*), const std::vector<uint64_t>& as, const std::vector<uint64_t>& bs) {
  T *a, *b, *out;
  long long* cycles;
  cudaMalloc(&a, 32 * sizeof(T)), cudaMalloc(&b, 32 * sizeof(T)), cudaMalloc(&out, 32 * sizeof(T)), cudaMalloc(&cycles, 8);
  for (uint64_t x : as)
    for (uint64_t y : bs) {
      const std::vector<T> va(32, of_bits<T>(x)), vb(32, of_bits<T>(y));
      cudaMemcpy(a, va.data(), 32 * sizeof(T), cudaMemcpyHostToDevice), cudaMemcpy(b, vb.data(), 32 * sizeof(T), cudaMemcpyHostToDevice);
      kernel<<<1, 32>>>(a, b, out, cycles);
      long long took = 0;
      T result;
      cudaMemcpy(&took, cycles, 8, cudaMemcpyDeviceToHost), cudaMemcpy(&result, out, sizeof result, cudaMemcpyDeviceToHost);
      uint64_t bits = 0;
      std::memcpy(&bits, &result, sizeof result);
      std::printf("{\"operation\":\"%s\",\"a\":\"%llx\",\"b\":\"%llx\",\"result\":\"%llx\",\"cycles\":%lld}\n", name, (unsigned long long)x, (unsigned long long)y, (unsigned long long)bits, took);
    }
}

int main(int argc, char** argv) {
  if (argc > 1 && !std::strcmp(argv[1], "map")) {
    uint32_t* cycles;
    cudaMallocManaged(&cycles, 65536 * 4);
    for (float ma : {1.f, 1.99f})
      for (float mb : {1.f, 1.99f}) {
        for (int warm = 0; warm < 2; warm++) map_div<<<256, 32>>>(ma, mb, cycles), cudaDeviceSynchronize();
        uint32_t least = UINT32_MAX;
        for (int i = 0; i < 65536; i++) least = cycles[i] < least ? cycles[i] : least;
        for (int ea = 0; ea < 256; ea++) {
          std::printf("{\"map\":\"div_f32\",\"mantissas\":[%g,%g],\"numerator\":%d,\"least\":%u,\"calls\":[", ma, mb, ea, least);
          bool first = true;
          for (int eb = 0; eb < 256;) {
            if (cycles[ea * 256 + eb] < 2 * least) {
              eb++;
              continue;
            }
            int end = eb;
            while (end + 1 < 256 && cycles[ea * 256 + end + 1] >= 2 * least) end++;
            std::printf("%s[%d,%d]", first ? "" : ",", eb, end), first = false, eb = end + 1;
          }
          std::printf("]}\n");
        }
      }
    return 0;
  }
  // One, 2/3-like, +0, -0, least and largest denormal, least normal, 2^-100, 2^-60, 2^60, 2^100, largest, infinity, NaN, -1.5
  const std::vector<uint64_t> f = {0x3f800000, 0x40490fdb, 0, 0x80000000, 1, 0x7fffff, 0x800000, 0x0d7fffff, 0x21800000, 0x5d800000, 0x71800000, 0x7f7fffff, 0x7f800000, 0x7fc00000, 0xbfc00000};
  const std::vector<uint64_t> d = {0x3ff0000000000000, 0x400921fb54442d18, 0, 0x8000000000000000, 1, 0xfffffffffffff, 0x10000000000000, 0x0350000000000000, 0x1000000000000000, 0x6000000000000000, 0x7000000000000000, 0x7fefffffffffffff, 0x7ff0000000000000, 0x7ff8000000000000, 0xbff8000000000000};
  const std::vector<uint64_t> l = {0, 1, 7, 0xffffffff, 0x100000000, 0x123456789abcdef, 0xffffffffffffffff, 0x8000000000000000};
  run("div_f32", div_f32, f, f);
  run("rcp_f32", rcp_f32, f, {0x3f800000});
  run("sqrt_f32", sqrt_f32, f, {0x3f800000});
  run("div_f64", div_f64, d, d);
  run("rcp_f64", rcp_f64, d, {0});
  run("sqrt_f64", sqrt_f64, d, {0});
  const std::vector<uint64_t> by = {1, 7, 0xffffffff, 0x100000000, 0x123456789, 0xffffffffffffffff};
  run("div_u64", div_u64, l, by), run("rem_u64", rem_u64, l, by), run("div_s64", div_s64, l, by), run("rem_s64", rem_s64, l, by);
  run("div_u32", div_u32, {0, 7, 0xffffffff}, {1, 7, 0xffffffff}), run("rem_s32", rem_s32, {0, 7, 0xffffffff}, {1, 7, 0xffffffff});
}
