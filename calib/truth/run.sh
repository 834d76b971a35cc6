#!/bin/bash
# Builds the judged kernels and measures them: calib/truth/run.sh KERNELS_DIR OUT. Needs a Hopper GPU; counters need ncu.
# Clocks and power limit are left as they are.
set -eu
here=$(cd "$(dirname "$0")" && pwd) kernels=${1:?folder of the kernel library} out=${2:?folder for results}
mkdir -p "$out"
"$here/build" "$kernels"
truth=build-truth/truth
{
  printf '{"date":"%s","command":"calib/truth/run.sh","nvcc":"%s"}\n' "$(date -u +%FT%TZ)" "$(nvcc --version | tail -1)"
  nvidia-smi --query-gpu=name,driver_version,power.limit,clocks.sm,clocks.max.sm,clocks.mem,temperature.gpu --format=csv,noheader | sed 's/.*/{"gpu":"&"}/'
  $truth events
} > "$out/events.jsonl"
if command -v ncu; then
metrics=gpu__time_duration.sum,sm__cycles_elapsed.max,smsp__inst_executed.sum,dram__bytes_read.sum,dram__bytes_write.sum,lts__t_sectors.sum,l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum,launch__registers_per_thread,launch__occupancy_limit_registers,sm__warps_active.avg.pct_of_peak_sustained_active
for cache in all none; do
  ncu --clock-control none --cache-control $cache --replay-mode kernel --metrics $metrics --csv --page raw --log-file "$out/ncu-$cache.csv" $truth once "" ${REPEATS:-3} > "$out/cases-$cache.txt" || true
done
fi
for p in saxpy/67108864 triad_loop/67108864 transpose_tiled/8192 gather/8388608 nbody/65536 sgemm_registers/4096 sgemm_tiled/2048 half_horner/4194304 \
  double_horner/4194304 murmur/4194304 softplus/16777216 jacobi2d/8192 softmax_rows/4096 histogram_shared/16777216 spmv_warp/262144 mma_gemm/4096 mma_gemm/8192 \
  library_gemm/4096 library_gemm/8192 attention_full_128/4096 attention_causal_64/16384; do $truth energy $p; done > "$out/energy.jsonl" || true
