// Consumers that never give a stage back: the producer stops when the ring of four is full.
// planted: hang
// finding: hang
#include "planted.h"
#include "planted_gemm.h"

__global__ void __launch_bounds__(256, 1) gemm(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, float* out, int steps) {
  extern __shared__ unsigned char raw[];
  __shared__ uint64_t full[4], empty[4];
  unsigned char* tiles = raw + (1024 - smem(raw) % 1024) % 1024;
  GEMM_INIT(full, empty);
  if (threadIdx.x < 128) {
    if (threadIdx.x == 0)
      for (int i = 0; i < steps; i++) {
        int s = i % 4, phase = i / 4 % 2;
        MBAR_WAIT(&empty[s], phase ^ 1);  // HERE
        MBAR_EXPECT(&full[s], kStageBytes);
        TMA_LOAD(tiles + s * kStageBytes, &ma, i * 64, 0, &full[s]);
        TMA_LOAD(tiles + s * kStageBytes + kTileA, &mb, i * 64, 0, &full[s]);
      }
  } else {
    float d[4] = {};
    for (int i = 0; i < steps; i++) {
      int s = i % 4, phase = i / 4 % 2;
      MBAR_WAIT(&full[s], phase);  // HERE
      WGMMA_FENCE();
      for (int j = 0; j < 4; j++) GEMM_STEP(d, tiles + s * kStageBytes, j);
      WGMMA_COMMIT();
      WGMMA_WAIT(0);
      REPAIR(MBAR_ARRIVE(&empty[s]);)
    }
    gemm_store(out, d, threadIdx.x - 128);
  }
}

PROGRAM(hang_no_release) { return run_gemm(gemm, 9); }
