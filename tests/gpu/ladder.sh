#!/usr/bin/env bash
# The ladder on a GPU, in one go:
#     B=build/cuda OUT=folder tests/gpu/ladder.sh [part ...]
# Parts: check sanitize table (all by default). It needs the driver, $B/bin/reducectl-ladder and for `sanitize`
# compute-sanitizer; a short summary comes last. $OUT (default $B/gpu-logs) gets the logs, ladder.json (int32 at 2^26 and
# 2^22), ladder-f32.json and ladder-finish.json, for `reducectl ladder --from FILE [--plot FILE.svg]` anywhere.
set -u
B=${B:-build/cuda}
OUT=${OUT:-$B/gpu-logs}
LADDER=$B/bin/reducectl-ladder
mkdir -p "$OUT"
parts=${*:-check sanitize table}
blocks=32,128,512,1024
summary=()
bad=0

note() { # name, exit code, text
    local state=ok
    [ "$2" = 0 ] || { state=FAILED; bad=1; }
    summary+=("$(printf '%-32s %-7s %s' "$1" "$state" "$3")")
}

# Every rung right for every n, block, type and finish. --device 0: no GPU is a failure here.
check_one() { # name, options...
    local name=$1 rc
    shift
    timeout 500 "$LADDER" --device 0 --check --dtype i32,f32 --block $blocks "$@" >"$OUT/ladder-$name.log" 2>&1
    rc=$?
    [ $rc = 0 ] || grep -v '^ladder:' "$OUT/ladder-$name.log" | head -20
    note "$name" $rc "$(tail -1 "$OUT/ladder-$name.log")"
}

check() {
    local all=relaunch,atomic,host
    check_one small --finish $all -n 1,2,3,31,32,33,1000 # block-sized trees, ragged ends
    check_one medium --finish $all -n 2^20-1,2^20,2^20+1
    check_one large --finish $all -n 2^26 --rungs '!nested,!nested-nosync'
    # A launch for every level of every block: millions of them
    check_one large-nested -n 2^26 --rungs nested,nested-nosync
}

sanitize_one() { # tool, name, rungs
    local log=$OUT/ladder-$1-$2.log
    timeout 300 compute-sanitizer --tool "$1" --error-exitcode 9 "$LADDER" --device 0 --check --dtype i32,f32 \
        --block 32,64,96,256,1024 --finish relaunch,atomic,host -n 1,31,33,1000,9001 --rungs "$3" >"$log" 2>&1
    note "$1, $2 rungs" $? "$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY|ladder:' "$log" | tr '\n' ' ')"
}

# The other tools say of launches from the device: "CUDA Dynamic Parallelism is not supported by the selected tool".
sanitize() {
    local tool
    for tool in memcheck racecheck initcheck synccheck; do
        sanitize_one $tool flat '!nested*,!cpu*'
    done
    sanitize_one memcheck nested 'nested*'
}

table() {
    local name rc
    measure() { # name, options...
        name=$1
        shift
        timeout 500 "$LADDER" --device 0 --json "$@" >"$OUT/$name.json" 2>"$OUT/$name.err"
        rc=$?
        [ $rc = 0 ] || head -5 "$OUT/$name.err"
        note "$name.json" $rc "$(grep -c '"verdict":"right"' "$OUT/$name.json") rows right, of $(wc -l <"$OUT/$name.json")"
    }
    measure ladder -n 2^26,2^22
    measure ladder-f32 -n 2^26,2^22 --dtype f32
    measure ladder-finish -n 2^26 --rungs 'cpu-recursive-interleaved,interleaved*,first*,coarsened,unroll*' \
        --finish relaunch,atomic,host --block 128,256,512
    "$LADDER" --from "$OUT/ladder.json"
}

for part in $parts; do
    echo "== $part"
    "$part"
done
echo
printf '%s\n' "${summary[@]}"
exit $bad
