#!/usr/bin/env bash
# exported_names.sh LIB_DIR NVCC: every CUDA function that the libraries of NVCC's toolkit export, ours export too. A program
# that uses one which is missing would not start, or would call NVIDIA's where that is linked statically. Exit status 77: the
# toolkit has none of the libraries, so nothing was compared.
set -euo pipefail
ours=$1 toolkit=$(dirname "$(readlink -f "$2")")/../lib64 failed=0 compared=0
names() { nm -D --defined-only "$1" | awk '$2 ~ /[TW]/ {sub(/@.*/, "", $3); print $3}' | grep -E '^(cu|__cuda)' | sort -u; }
compare() {  # OURS THEIRS
  [ -e "$2" ] || return 0
  local missing theirs
  theirs=$(names "$2")
  missing=$(comm -13 <(names "$1") <(echo "$theirs"))
  compared=$((compared + 1))
  if [ -n "$missing" ]; then echo "FAIL  $(basename "$2") has, and $(basename "$1") lacks:" $missing; failed=1; else echo "ok    $(basename "$2")"; fi
}
for version in 12 13; do compare "$ours/libcudart.so.$version" "$toolkit/libcudart.so.$version"; done
compare "$ours/libcuda.so.1" "$toolkit/stubs/libcuda.so"
if [ $compared = 0 ]; then echo "none of the libraries is in $toolkit"; exit 77; fi
exit $failed
