#!/usr/bin/env bash
# loading.sh ORRERY NVCC BUILD_DIR: one program, compiled in every way that changes how its code is packed or linked,
# must print the same through `orrery run`; what cannot run must say which flag helps.
set -u
orrery=$1 nvcc=$2 build=$3
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$build"
failed=0
want="constructor 1 sum 2016 table 42"

expect() {  # NAME TEXT COMMAND...: the output holds TEXT
  local name=$1 text=$2
  shift 2
  local got
  got=$("$@" 2>&1)
  case $got in
    *"$text"*) echo "ok    $name" ;;
    *) echo "FAIL  $name: wanted '$text', got: $got"; failed=1 ;;
  esac
}
build() {  # NAME FLAGS...
  local name=$1
  shift
  "$nvcc" -o "$build/$name" "$here/loading.cu" "$@" >"$build/$name.log" 2>&1 || { echo "FAIL  $name does not compile"; cat "$build/$name.log"; failed=1; }
}

build static_runtime
build shared_runtime -cudart shared
build plain -cudart shared -gencode arch=compute_90,code=compute_90 --no-compress
build lz4 -cudart shared -gencode arch=compute_90,code=compute_90 -compress-mode=speed
build small -cudart shared -gencode arch=compute_90a,code=[sm_90a,compute_90a] -compress-mode=size
build several -cudart shared -gencode arch=compute_75,code=compute_75 -gencode arch=compute_90,code=compute_90 -gencode arch=compute_100,code=compute_100
build debug -G
build per_thread -default-stream per-thread
build no_pie -Xcompiler -fno-pie -Xlinker -no-pie
build relocatable -rdc=true "$here/loading_part.cu" -DWITH_PART
build code_only -cudart shared -gencode arch=compute_90a,code=sm_90a
build too_new -cudart shared -gencode arch=compute_120,code=compute_120
for name in static_runtime shared_runtime plain lz4 small several debug per_thread no_pie relocatable; do
  expect "$name" "$want" "$orrery" run --quiet -- "$build/$name"
done
"$nvcc" -o "$build/ends_early" "$here/ends_early.cu" || failed=1
expect "a last short kernel runs, without a message, though nobody waits" "[value 7]" printf '[%s]' "$("$orrery" run --quiet -- "$build/ends_early" 2>&1)"
# (CUDA 12's cuCtxCreate has one argument less.)
if "$nvcc" -DOWN_CONTEXT -o "$build/ends_early_own" "$here/ends_early.cu" -lcuda 2>/dev/null; then
  expect "so does one in a context of the program's own" "[value 7]" printf '[%s]' "$("$orrery" run --quiet -- "$build/ends_early_own" 2>&1)"
fi
# A program without kernels, linked by the host's compiler: nothing of it is device code but it holds the runtime.
cuda=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
if [ -f "$cuda/lib64/libcudart_static.a" ]; then
  c++ -I"$cuda/include" -o "$build/memory_only" "$here/memory_only.cc" -L"$cuda/lib64" -lcudart_static -ldl -lrt -lpthread || failed=1
  expect "memory only" "[value 7]" printf '[%s]' "$("$orrery" run --quiet -- "$build/memory_only" 2>&1)"
  strip -o "$build/memory_only_stripped" "$build/memory_only"
  expect "memory only, stripped, is refused" "-cudart shared" "$orrery" run --quiet -- "$build/memory_only_stripped"
fi
if "$nvcc" -o "$build/mathematical" "$here/mathematical.cu" -lcublas >/dev/null 2>&1; then
  expect "a library of machine code is named" "libcublas" "$orrery" run --quiet -- "$build/mathematical"
fi
strip -o "$build/stripped" "$build/static_runtime"
expect "stripped is refused" "-cudart shared" "$orrery" run --quiet -- "$build/stripped"
expect "machine code only is refused" "code=compute_90" "$orrery" run --quiet -- "$build/code_only"
expect "newer PTX is refused" "--gpu" "$orrery" run --quiet -- "$build/too_new"
exit $failed
