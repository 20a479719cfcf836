#!/usr/bin/env bash
# Everything that needs a GPU, in one go: `make test-gpu`, or on a machine without a compiler
#     B=build/cuda-portable tests/gpu/run.sh [part ...]
# Parts: check sanitize bench daemon memory reach devices restart ladder (all by default). A short table comes last; full logs go to $OUT (default
# $B/gpu-logs).
set -u
B=${B:-build/cuda}
OUT=${OUT:-$B/gpu-logs}
mkdir -p "$OUT"
parts=${*:-check sanitize bench daemon memory reach devices restart ladder}
table=()
bad=0

note() { # name, exit code, text
    local state=ok
    [ "$2" = 0 ] || { state=FAILED; bad=1; }
    table+=("$(printf '%-28s %-7s %s' "$1" "$state" "$3")")
}

check() {
    local ways=("" "--only sum --integers" "--only stats --integers" "--only sum --long"
        "--huge --only sum" "--huge --only var") way rc
    for way in "${ways[@]}"; do
        # shellcheck disable=SC2086 # words of an option list
        "$B/gpu/check_engine" $way >"$OUT/check${way// /}.log" 2>&1
        rc=$?
        [ $rc = 77 ] && { echo "skipped: $(head -1 "$OUT/check.log")"; exit 77; }
        grep -m 20 FAIL "$OUT/check${way// /}.log"
        note "cpu = cuda $way" $rc "$(tail -1 "$OUT/check${way// /}.log")"
    done
}

sanitize() {
    local tool size errors
    for tool in memcheck racecheck initcheck synccheck; do
        size=--quick errors=()
        [ $tool = memcheck ] && errors=(--report-api-errors no) # handles that no driver made are refused, as they should be
        [ $tool = racecheck ] && size=--tiny # it slows every shared-memory access down a hundredfold
        timeout 400 compute-sanitizer --tool $tool "${errors[@]}" --error-exitcode 9 "$B/gpu/check_engine" $size >"$OUT/$tool.log" 2>&1
        note "$tool $size" $? "$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$OUT/$tool.log" | tail -1)"
    done
}

bench() {
    B=$B python3 tests/bench/run.py kernels --json "$OUT/kernels.json" 2>&1 | tee "$OUT/bench.log"
    local rc=${PIPESTATUS[0]}
    grep -q DIFFERENT "$OUT/bench.log" && rc=1
    note "kernels beside their peers" "$rc" "$(grep -c ' met ' "$OUT/bench.log") goals met, $(grep -c ' MISSED ' "$OUT/bench.log") missed"
}

daemon() {
    B=$B python3 tests/gpu/daemon.py >"$OUT/daemon.log" 2>&1
    note "daemon: cuda = cpu" $? "$(tail -1 "$OUT/daemon.log")"
    local mode
    for mode in 32768 0; do
        B=$B timeout 200 python3 tests/bench/run.py requests --json "$OUT/requests-$mode.json" -- \
            --backend cuda --small-bytes $mode >"$OUT/requests-$mode.log" 2>&1
        local rc=$?
        cat "$OUT/requests-$mode.log"
        note "requests, small-bytes $mode" $rc "$(grep -E '^requests, 16 processes' "$OUT/requests-$mode.log")"
    done
}

memory() {
    B=$B timeout 120 python3 tests/gpu/memory.py >"$OUT/memory.log" 2>&1
    local rc=$?
    cat "$OUT/memory.log"
    note "bulk data" $rc "$(grep -c ' met ' "$OUT/memory.log") goals met, $(grep -c ' MISSED ' "$OUT/memory.log") missed"
}

reach() {
    REDUCED_BACKEND=cuda REDUCED_BIN_DIR=$B/bin python3 -m pytest -q -p no:cacheprovider tests/test_everywhere.py >"$OUT/everywhere.log" 2>&1
    note "states: cuda = the library" $? "$(tail -1 "$OUT/everywhere.log")"
    B=$B python3 tests/gpu/mpi.py >"$OUT/mpi.log" 2>&1
    local rc=$?
    [ $rc = 77 ] && rc=0
    note "files and devices over MPI" $rc "$(tail -1 "$OUT/mpi.log")"
}

devices() {
    [ "$(nvidia-smi -L | wc -l)" -gt 1 ] || { note "several GPUs" 0 "one GPU here: not run"; return; }
    B=$B timeout 200 python3 -u tests/gpu/multi.py >"$OUT/devices.log" 2>&1
    local rc=$?
    cat "$OUT/devices.log"
    note "several GPUs" $rc "$(tail -1 "$OUT/devices.log")"
}

restart() {
    ldd "$B/bin/reduced" | grep -q libsystemd || { note "restarts under load" 0 "built without systemd (make PORTABLE=1 SYSTEMD=yes): not run"; return; }
    RESTARTS=60 REDUCED_BACKEND=cuda REDUCED_BIN_DIR=$B/bin timeout 240 \
        python3 -m pytest -q -s -p no:cacheprovider tests/test_restart.py -k sixteen >"$OUT/restart.log" 2>&1
    note "restarts under load" $? "$(grep -h 'longest wait' "$OUT/restart.log")"
}

ladder() {
    B=$B OUT=$OUT tests/gpu/ladder.sh check sanitize >"$OUT/ladder.log" 2>&1
    note "ladder: every rung" $? "$(grep -c ' ok ' "$OUT/ladder.log") of its checks passed"
}

for part in $parts; do
    echo "== $part"
    "$part"
done
echo
printf '%s\n' "${table[@]}"
exit $bad
