#!/usr/bin/env bash
# Runs the benchmarks and leaves one raw file each: run.sh BUILD_DIR OUT_DIR [--search]
# With --search every configuration of ours is timed too and logged to OUT_DIR/search_*.csv (bench/make_table).
# The exit status is 1 if a benchmark failed or found a result that was not right; the others are run all the same.
build=$1 out=$2 search=$3
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out" || exit 1
failed=0
header() {
  echo "# date $(date -u +%Y-%m-%dT%H:%MZ), driver $(nvidia-smi --query-gpu=driver_version --format=csv,noheader), clocks left alone"
  echo "# command:$(printf ' %s' "${@##*/}")"
}
fault() { echo "$1 failed" >&2; failed=1; }
run() {  # NAME COMMAND...
  local name=$1
  shift
  { header "$@"; "$@"; } > "$out/$name.csv" || fault "$name"
}
for table in skinny_e4m3 skinny_f16 skinny_bf16 skinny_w4a16 skinny_w8a16 skinny_w8f16 wide_w8a16 wide_w8f16 square_bf16 square_f16 square_e4m3 square_int8 square_e4m3_promoted held_bf16 held_e4m3; do
  if [ -n "$search" ]; then run gemm_$table "$build/kernels_gemm_bench" $table "$out/search_$table.csv"
  else run gemm_$table "$build/kernels_gemm_bench" $table; fi
done
run memory "$build/kernels_memory_bench"
for table in paged paged_e4m3; do run attention_$table "$build/kernels_attention_bench" $table; done
run attention_more "$build/kernels_attention_bench" more
for table in near near_sigmoid near_192 near_256; do run attention_$table "$build/kernels_attention_bench" $table; done
run kv_votes "$build/kernels_attention_bench" votes
run papers "$build/kernels_papers_bench"
run papers_networks "$build/kernels_papers_bench" networks
run papers_moe "$build/kernels_papers_bench" moe
if python3 -c 'import torch' 2> /dev/null; then
  run papers_peers python3 "$here/papers_peers.py"  # the rival's column of conv_grouped
  python3 "$here/peers.py" "$build/libkernels_peers_shared.so" --out "$out" attention attention_fp8 backward varlen grouped block_scaled sparse || fault peers
fi
exit $failed
