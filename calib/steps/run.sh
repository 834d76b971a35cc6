#!/bin/bash
# Builds and measures calib/steps: run.sh OUT [CASES [ENERGY]]: cases whose names hold one of the words (by commas; default all), and
# cases whose power is measured, too (by spaces; default those below). Needs a Hopper GPU and ncu; clocks and power limit are left
# as they are. $STEPS: the program, when it is built already.
set -eu
here=$(cd "$(dirname "$0")" && pwd) out=${1:?folder for results} cases=${2:-}
energy="ffma/64 imad/64 logic/64 mufu/64 hfma/64 dfma/64 shuffle/64 shared_load4/64 shared_load16/64 matrix_load/64 read16_l2/16 read16/2048 write16/1024 copy_loop16/1024
  hmma/16 wgmma_two_random/0 wgmma_two_zero/0 wgmma_one_random/0 wgmma_two_random/200 wgmma_two_random/800 empty/1 random_read/1024 bulk_l2/8 power_"
energy=${3-$energy}
mkdir -p "$out"
steps=${STEPS:-}
if [ -z "$steps" ]; then
  mkdir -p build-steps
  nvcc -O3 -std=c++20 -gencode arch=compute_90a,code=[sm_90a,compute_90a] -o build-steps/steps "$here"/*.cu "$here/../truth/truth.cu"
  steps=build-steps/steps
fi
{
  printf '{"date":"%s","command":"calib/steps/run.sh","nvcc":"%s"}\n' "$(date -u +%FT%TZ)" "$(nvcc --version | tail -1)"
  nvidia-smi --query-gpu=name,driver_version,power.limit,clocks.sm,clocks.max.sm,clocks.mem,temperature.gpu --format=csv,noheader | sed 's/.*/{"gpu":"&"}/'
  $steps events "$cases"
} > "$out/events.jsonl"
metrics=gpu__time_duration.sum,sm__cycles_elapsed.max,smsp__inst_executed.sum,dram__bytes_read.sum,dram__bytes_write.sum,lts__t_sectors.sum,lts__t_sectors_srcunit_tex.sum,lts__t_sectors_srcunit_ltcfabric.sum,lts__t_sectors_op_membar.sum,l1tex__data_pipe_lsu_wavefronts_mem_shared.sum,launch__registers_per_thread,sm__warps_active.avg.pct_of_peak_sustained_active
for cache in all none; do
  ncu --clock-control none --cache-control $cache --replay-mode kernel --metrics $metrics --csv --page raw --log-file "$out/ncu-$cache.csv" $steps once "$cases" ${REPEATS:-3} > "$out/cases-$cache.txt" || true
done
for p in $energy; do $steps energy $p; done > "$out/energy.jsonl" || true
