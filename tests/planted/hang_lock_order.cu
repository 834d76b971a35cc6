// Two blocks take two locks in opposite order.
// planted: hang
// finding: livelock | hang
#include "planted.h"

__global__ void transfer(int* lock, int* money, unsigned* ready) {
  if (threadIdx.x) return;
  int first = BUG(blockIdx.x) REPAIR(0), second = 1 - first;
  while (atomicCAS(&lock[first], 0, 1)) {}  // HERE
  BUG(atomicAdd(ready, 1u); while (atomicAdd(ready, 0u) < 2) {})
  __threadfence();
  while (atomicCAS(&lock[second], 0, 1)) {}  // HERE
  __threadfence();
  money[blockIdx.x] += 5;
  money[1 - blockIdx.x] -= 5;
  __threadfence();
  atomicExch(&lock[second], 0);
  atomicExch(&lock[first], 0);
}

PROGRAM(hang_lock_order) {
  Buffer<int> lock(2), money(2);
  Buffer<unsigned> ready(1);
  lock.zero(), money.zero(), ready.zero();
  transfer<<<2, 32>>>(lock, money, ready);
  return finished() && same(money.host(), {0, 0});
}
