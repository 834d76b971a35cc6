// Atomic functions of every type and scope.
#include "check.h"

struct Cells {
  int i, low, high, bits;
  unsigned u, wrap;
  unsigned long long l, top;
  float f;
  double d;
};

__global__ void add(Cells* c) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&c->i, t);
  atomicSub_system(&c->i, 1);
  atomicMin(&c->low, -t);
  atomicMax(&c->high, t);
  atomicOr(&c->bits, 1 << (t % 20));
  atomicAdd_system(&c->u, 2u);
  atomicInc(&c->wrap, 9u);
  atomicAdd(&c->l, 1ull << 33);
  atomicMax(&c->top, (unsigned long long)t << 40);
  atomicAdd(&c->f, 0.5f);
  atomicAdd(&c->d, 0.25);
}
__global__ void spin(unsigned* lock, int* value) {
  for (bool done = false; !done;) {
    if (atomicCAS(lock, 0u, 1u) == 0) {
      *(volatile int*)value = *(volatile int*)value + 1;
      __threadfence();
      atomicExch(lock, 0u);
      done = true;
    }
  }
}

int main() {
  const int n = 256;
  Cells* c = managed<Cells>(1);
  add<<<4, 64>>>(c);
  finish();
  EXPECT(c->i == n * (n - 1) / 2 - n, "i %d", c->i);
  EXPECT(c->low == -(n - 1) && c->high == n - 1, "low %d high %d", c->low, c->high);
  EXPECT(c->bits == (1 << 20) - 1, "bits %x", c->bits);
  EXPECT(c->u == 2 * n && c->wrap == n % 10, "u %u wrap %u", c->u, c->wrap);
  EXPECT(c->l == (unsigned long long)n << 33 && c->top == 255ull << 40, "l %llx top %llx", c->l, c->top);
  EXPECT(c->f == 0.5f * n && c->d == 0.25 * n, "f %g d %g", c->f, c->d);
  unsigned* lock = managed<unsigned>(1);
  int* value = managed<int>(1);
  spin<<<2, 64>>>(lock, value);
  finish();
  EXPECT(*value == 128, "value %d", *value);
  return pass();
}
