#!/usr/bin/env bash
# exported_names.sh LIB_DIR TOOLKIT_LIB_DIR: every CUDA function that the toolkit's libraries export, ours export too. A program
# that uses one which is missing would not start, or would call NVIDIA's where that is linked statically.
set -euo pipefail
ours=$1 toolkit=$2 failed=0
names() { nm -D --defined-only "$1" | awk '$2 ~ /[TW]/ {sub(/@.*/, "", $3); print $3}' | grep -E '^(cu|__cuda)' | sort -u; }
compare() {  # OURS THEIRS
  [ -e "$2" ] || return 0
  local missing
  missing=$(comm -13 <(names "$1") <(names "$2"))
  if [ -n "$missing" ]; then echo "FAIL  $(basename "$2") has, and $(basename "$1") lacks:" $missing; failed=1; else echo "ok    $(basename "$2")"; fi
}
for version in 12 13; do compare "$ours/libcudart.so.$version" "$toolkit/libcudart.so.$version"; done
compare "$ours/libcuda.so.1" "$toolkit/stubs/libcuda.so"
exit $failed
