// The producer of the pipeline does not wait for a stage to be empty before it loads into it again.
// planted: asynccheck
// finding: stage-reused | race | arrival-count
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
        int s = i % 4;
        REPAIR(MBAR_WAIT(&empty[s], i / 4 % 2 ^ 1);)
        MBAR_EXPECT(&full[s], kStageBytes);                                    // HERE
        TMA_LOAD(tiles + s * kStageBytes, &ma, i * 64, 0, &full[s]);           // HERE
        TMA_LOAD(tiles + s * kStageBytes + kTileA, &mb, i * 64, 0, &full[s]);  // HERE
      }
  } else {
    float d[4] = {};
    for (int i = 0; i < steps; i++) {
      int s = i % 4, phase = i / 4 % 2;
      MBAR_WAIT(&full[s], phase);
      WGMMA_FENCE();
      for (int j = 0; j < 4; j++) GEMM_STEP(d, tiles + s * kStageBytes, j);  // HERE
      WGMMA_COMMIT();
      WGMMA_WAIT(0);
      MBAR_ARRIVE(&empty[s]);
    }
    gemm_store(out, d, threadIdx.x - 128);
  }
}

PROGRAM(async_gemm_no_empty_wait) { return run_gemm(gemm, 9); }
