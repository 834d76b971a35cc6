// cuRAND's device functions for the Philox 4x32-10 generator: the same numbers as cuRAND gives.
//
// Philox is a counter put through ten rounds of multiplication: state is a 128-bit counter, a 64-bit key (the seed), the
// four words of the present counter and how many of them are used. A subsequence is 2^64 counters long.
// Not here: XORWOW, MRG32k3a, MTGP32, Sobol; a program that names them does not compile.
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); cuRAND library guide.
#ifndef ORRERY_CC_CURAND_KERNEL_H
#define ORRERY_CC_CURAND_KERNEL_H
#include <cuda_runtime.h>

#define ORRERY_RAND static __device__ __inline__

struct curandStatePhilox4_32_10 {
  uint4 ctr, output;
  uint2 key;
  unsigned STATE;
  int boxmuller_flag, boxmuller_flag_double;
  float boxmuller_extra;
  double boxmuller_extra_double;
};
typedef struct curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

namespace orrery_cc {
ORRERY_RAND uint4 philox(uint4 c, uint2 k) {
  for (int round = 0; round < 10; round++) {
    unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x;
    unsigned h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
    c = make_uint4(h1 ^ c.y ^ k.x, l1, h0 ^ c.w ^ k.y, l0);
    k.x += 0x9E3779B9u;
    k.y += 0xBB67AE85u;
  }
  return c;
}
ORRERY_RAND void philox_advance(curandStatePhilox4_32_10_t* s, unsigned long long n) {
  unsigned long long low = (unsigned long long)s->ctr.y << 32 | s->ctr.x, sum = low + n;
  s->ctr.x = (unsigned)sum;
  s->ctr.y = (unsigned)(sum >> 32);
  if (sum < low && ++s->ctr.z == 0) ++s->ctr.w;
}
}  // namespace orrery_cc

ORRERY_RAND void skipahead(unsigned long long n, curandStatePhilox4_32_10_t* s) {
  s->STATE += (unsigned)(n & 3);
  n /= 4;
  if (s->STATE > 3) {
    n += 1;
    s->STATE -= 4;
  }
  orrery_cc::philox_advance(s, n);
  s->output = orrery_cc::philox(s->ctr, s->key);
}
ORRERY_RAND void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10_t* s) {
  unsigned long long high = ((unsigned long long)s->ctr.w << 32 | s->ctr.z) + n;
  s->ctr.z = (unsigned)high;
  s->ctr.w = (unsigned)(high >> 32);
  s->output = orrery_cc::philox(s->ctr, s->key);
}
ORRERY_RAND void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                             curandStatePhilox4_32_10_t* s) {
  s->ctr = make_uint4(0, 0, 0, 0);
  s->key = make_uint2((unsigned)seed, (unsigned)(seed >> 32));
  s->STATE = 0;
  s->boxmuller_flag = s->boxmuller_flag_double = 0;
  s->boxmuller_extra = 0;
  s->boxmuller_extra_double = 0;
  skipahead_sequence(subsequence, s);
  skipahead(offset, s);
}
ORRERY_RAND unsigned curand(curandStatePhilox4_32_10_t* s) {
  unsigned r = s->STATE == 0 ? s->output.x : s->STATE == 1 ? s->output.y : s->STATE == 2 ? s->output.z : s->output.w;
  if (++s->STATE == 4) {
    s->STATE = 0;
    orrery_cc::philox_advance(s, 1);
    s->output = orrery_cc::philox(s->ctr, s->key);
  }
  return r;
}
ORRERY_RAND uint4 curand4(curandStatePhilox4_32_10_t* s) {
  uint4 now = s->output;
  orrery_cc::philox_advance(s, 1);
  s->output = orrery_cc::philox(s->ctr, s->key);
  uint4 next = s->output;
  switch (s->STATE) {
    case 0: return now;
    case 1: return make_uint4(now.y, now.z, now.w, next.x);
    case 2: return make_uint4(now.z, now.w, next.x, next.y);
    default: return make_uint4(now.w, next.x, next.y, next.z);
  }
}
namespace orrery_cc {
ORRERY_RAND float unit(unsigned x) { return x * 0x1p-32f + 0x1p-33f; }  // (0, 1]
ORRERY_RAND float2 box_muller(unsigned x, unsigned y) {
  float u = unit(x), v = y * 0x1.921fb6p-30f + 0x1.921fb6p-31f, s, c;  // v: 2 pi times the unit value
  float r = sqrtf(-2.0f * logf(u));
  sincosf(v, &s, &c);
  return make_float2(r * s, r * c);
}
}  // namespace orrery_cc
ORRERY_RAND float curand_uniform(curandStatePhilox4_32_10_t* s) { return orrery_cc::unit(curand(s)); }
ORRERY_RAND float4 curand_uniform4(curandStatePhilox4_32_10_t* s) {
  uint4 x = curand4(s);
  return make_float4(orrery_cc::unit(x.x), orrery_cc::unit(x.y), orrery_cc::unit(x.z), orrery_cc::unit(x.w));
}
ORRERY_RAND float2 curand_normal2(curandStatePhilox4_32_10_t* s) {
  unsigned x = curand(s), y = curand(s);
  return orrery_cc::box_muller(x, y);
}
ORRERY_RAND float4 curand_normal4(curandStatePhilox4_32_10_t* s) {
  uint4 x = curand4(s);
  float2 a = orrery_cc::box_muller(x.x, x.y), b = orrery_cc::box_muller(x.z, x.w);
  return make_float4(a.x, a.y, b.x, b.y);
}
ORRERY_RAND float curand_normal(curandStatePhilox4_32_10_t* s) {
  if (s->boxmuller_flag) {
    s->boxmuller_flag = 0;
    return s->boxmuller_extra;
  }
  float2 pair = curand_normal2(s);
  s->boxmuller_flag = 1;
  s->boxmuller_extra = pair.y;
  return pair.x;
}
#undef ORRERY_RAND
#endif
