#!/bin/bash
# Builds and measures the kernels that were predicted first: calib/held-out/run.sh OUT. Needs a Hopper GPU and ncu; clocks and power
# limit are left as they are. $BINARY: the program, when it is built already; $ENERGY: cases whose power is read, too.
set -eu
here=$(cd "$(dirname "$0")" && pwd) out=${1:?folder for results}
mkdir -p "$out"
binary=${BINARY:-}
if [ -z "$binary" ]; then
  mkdir -p build-held-out
  binary=build-held-out/held-out
  nvcc -O3 -std=c++20 -gencode arch=compute_90a,code=[sm_90a,compute_90a] -o $binary "$here"/*.cu "$here/../truth/truth.cu"
fi
{
  printf '{"date":"%s","command":"calib/held-out/run.sh","nvcc":"%s"}\n' "$(date -u +%FT%TZ)" "$(nvcc --version | tail -1)"
  nvidia-smi --query-gpu=name,driver_version,power.limit,clocks.sm,clocks.max.sm,clocks.mem,temperature.gpu --format=csv,noheader | sed 's/.*/{"gpu":"&"}/'
  $binary events
} > "$out/events.jsonl"
metrics=gpu__time_duration.sum,sm__cycles_elapsed.max,smsp__inst_executed.sum,dram__bytes_read.sum,dram__bytes_write.sum,lts__t_sectors.sum,lts__t_sectors_srcunit_tex.sum,launch__registers_per_thread,sm__warps_active.avg.pct_of_peak_sustained_active
for cache in all none; do
  ncu --clock-control none --cache-control $cache --replay-mode kernel --metrics $metrics --csv --page raw --log-file "$out/ncu-$cache.csv" $binary once "" 2 > "$out/cases-$cache.txt"
done
for p in ${ENERGY:-layer_norm_rows/16384 warp_roles/3072 conv2d_channels/512}; do $binary energy $p; done > "$out/energy.jsonl" || true
