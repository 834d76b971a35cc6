#!/bin/bash
# All measurements of the model scale on a machine with up to four GPUs; results in the folder given.
out=${1:?folder}; cd "$(dirname "$0")"
gpus=$(nvidia-smi -L | wc -l)
nvidia-smi --query-gpu=name,driver_version,power.limit,clocks.max.sm --format=csv | tee "$out/machine.txt"
nvidia-smi topo -m >> "$out/machine.txt"
i=0
for set in gemm attention grouped power; do
  g=$((i % gpus))
  if [ "$gpus" -ge 4 ]; then
    CUDA_VISIBLE_DEVICES=$g METER=$g MEASURE_SECONDS=${SPAN:-75} PYTHONUNBUFFERED=1 timeout $((${SPAN:-75} + 25)) python3 measure.py $set "$out/$set.jsonl" &
  else
    CUDA_VISIBLE_DEVICES=$g METER=$g MEASURE_SECONDS=${SPAN:-75} PYTHONUNBUFFERED=1 timeout $((${SPAN:-75} + 25)) python3 measure.py $set "$out/$set.jsonl"
  fi
  i=$((i + 1))
done
wait
for world in 4 2; do
  [ "$gpus" -ge $world ] && MEASURE_SECONDS=40 PYTHONUNBUFFERED=1 timeout 60 python3 several.py $world "$out/several$world.jsonl"
done
CUDA_VISIBLE_DEVICES=0 METER=0 MEASURE_SECONDS=110 PYTHONUNBUFFERED=1 timeout 135 python3 measure.py experts "$out/experts.jsonl"
MEASURE_SECONDS=12 PYTHONUNBUFFERED=1 timeout 25 python3 measure.py copies "$out/copies.jsonl"
