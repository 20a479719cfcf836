#!/bin/sh
# Selection on a GPU, all of it in some minutes:  tests/gpu/select.sh PROGRAM   Logs go to $OUT.
program=$1
nvidia-smi --query-gpu=name --format=csv,noheader
timeout 100 "$program" --largest 1100000 --every 29 2>&1 | tail -20
timeout 150 "$program" --bench 2>&1 | tee "$OUT/bench.log"
for tool in memcheck racecheck initcheck synccheck; do
    echo "$tool: $(timeout 60 compute-sanitizer --tool $tool --error-exitcode 9 "$program" --largest 70000 --every 997 2>&1 | tail -2 | tr '\n' ' ')"
done
timeout 60 ncu --clock-control none --set full -k 'regex:count_line|select_by_warps|find_brackets|count_digits' -c 6 "$program" --bench --mib 256 >"$OUT/ncu.log" 2>&1
grep -E "^  [a-z].*\(|Duration|Memory Throughput|Executed Ipc|Registers Per|Achieved Occ|DRAM Thr|Issue Slots" "$OUT/ncu.log" | head -60
