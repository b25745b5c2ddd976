#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh - build the fuzz programs (preset fuzz: clang, libFuzzer, sanitizers)
# and run each for a while from the committed corpus.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

usage() {
	cat <<END
usage: sh tests/fuzz/run.sh [--seconds N] [--seed N] [--build DIR] [--keep]
                            [DECODER...]

Fuzz all decoders, or those named (codec, config, elf, frame, model, report,
spec, store, value). Exits 1 when one breaks, and leaves the input as BUILD/fuzz/DECODER/crash-*.
  --seconds N  for each decoder (default 20)
  --seed N     the same inputs every time, as far as the time reaches; what was
               found before is not used (default: others every time)
  --build DIR  build folder (default: build/fuzz of the source tree)
  --keep       then add to the committed corpus what reaches new code
END
}

seconds=20
seed=0
build=$root/build/fuzz
keep=0
decoders=
while [ $# -gt 0 ]; do
	case $1 in
	--seconds | --seed | --build)
		[ $# -ge 2 ] || { echo "fuzz/run.sh: $1 needs a value, see --help" >&2; exit 2; }
		case $1 in
		--seconds) seconds=$2 ;;
		--seed) seed=$2 ;;
		--build) build=$2 ;;
		esac
		shift
		;;
	--keep) keep=1 ;;
	-h | --help)
		usage
		exit 0
		;;
	-*)
		echo "fuzz/run.sh: unknown option '$1', see --help" >&2
		exit 2
		;;
	*) decoders="$decoders $1" ;;
	esac
	shift
done
[ -n "$decoders" ] || decoders=$(cd "$here/corpus" && echo *)

sh "$root/systemd/setup.sh" --tests --checks --quiet
cd "$root"
mkdir -p "$build"
if ! { cmake --preset fuzz -B "$build" && cmake --build "$build" --target fuzz; } \
	>"$build/build.log" 2>&1; then
	tail -n 40 "$build/build.log" >&2
	echo "fuzz/run.sh: the build failed (log: $build/build.log)" >&2
	exit 1
fi

status=0
for decoder in $decoders; do
	program=$build/tests/fuzz/fuzz_$decoder
	[ -x "$program" ] || { echo "fuzz/run.sh: no decoder '$decoder', see --help" >&2; exit 2; }
	work=$build/fuzz/$decoder
	[ "$seed" = 0 ] || rm -rf "$work"
	mkdir -p "$work/found"
	dictionary=
	[ ! -e "$here/$decoder.dict" ] || dictionary=-dict=$here/$decoder.dict
	if "$program" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
		-seed="$seed" -artifact_prefix="$work/" -print_final_stats=1 $dictionary \
		"$work/found" "$here/corpus/$decoder" >"$work/log" 2>&1; then
		runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log")
		cover=$(grep -o 'cov: [0-9]*' "$work/log" | tail -n 1)
		echo "ok - $decoder: $runs inputs, $cover"
	else
		status=1
		grep -E -A 12 'broken promise|ERROR|SUMMARY|runtime error' "$work/log" >&2 ||
			tail -n 20 "$work/log" >&2
		echo "not ok - $decoder (log: $work/log)"
	fi
	[ "$keep" = 0 ] || "$program" -merge=1 -use_counters=0 -max_len=512 "$here/corpus/$decoder" \
		"$work/found" >>"$work/log" 2>&1
done
exit "$status"
