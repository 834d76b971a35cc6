// An array that is freed twice, through two copies of its pointer.
// planted: memcheck
// finding: double-free | invalid-free
#include "planted.h"

PROGRAM(mem_double_free) {
  int *x, *alias;
  cudaMalloc(&x, 4096);
  alias = x;
  cudaFree(x);
  BUG(cudaFree(alias);)
  (void)alias;
  return true;
}
