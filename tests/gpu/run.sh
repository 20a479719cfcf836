#!/usr/bin/env bash
# Everything that needs a GPU, in one go: `make test-gpu`, or on a machine without a compiler
#     B=build/cuda-portable tests/gpu/run.sh [part ...]
# Parts: check sanitize bench daemon (all by default). A short table comes last; full logs go to $OUT (default $B/gpu-logs).
set -u
B=${B:-build/cuda}
OUT=${OUT:-$B/gpu-logs}
mkdir -p "$OUT"
parts=${*:-check sanitize bench daemon}
table=()
bad=0

note() { # name, exit code, text
    local state=ok
    [ "$2" = 0 ] || { state=FAILED; bad=1; }
    table+=("$(printf '%-28s %-7s %s' "$1" "$state" "$3")")
}

check() {
    "$B/gpu/check_engine" >"$OUT/check.log" 2>&1
    local rc=$?
    [ $rc = 77 ] && { echo "skipped: $(head -1 "$OUT/check.log")"; exit 77; }
    grep -m 20 FAIL "$OUT/check.log"
    note "cpu = cuda" $rc "$(tail -1 "$OUT/check.log")"
}

sanitize() {
    local tool
    for tool in memcheck racecheck initcheck synccheck; do
        timeout 400 compute-sanitizer --tool $tool --error-exitcode 9 "$B/gpu/check_engine" --quick >"$OUT/$tool.log" 2>&1
        note "$tool" $? "$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$OUT/$tool.log" | tail -1)"
    done
}

bench() {
    "$B/gpu/bench_kernels" >"$OUT/bench.log" 2>&1
    local rc=$?
    cat "$OUT/bench.log"
    grep -q DIFFERENT "$OUT/bench.log" && rc=1
    note "kernels beside CUB" $rc "$(head -1 "$OUT/bench.log")"
}

daemon() {
    B=$B tests/gpu/daemon.sh >"$OUT/daemon.log" 2>&1
    local rc=$?
    cat "$OUT/daemon.log"
    note "daemon" $rc "$(tail -1 "$OUT/daemon.log")"
}

for part in $parts; do
    echo "== $part"
    "$part"
done
echo
printf '%s\n' "${table[@]}"
exit $bad
