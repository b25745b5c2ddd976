#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh - build the GPU tests and run them, with a summary at the end.
#
#     sh tests/gpu/run.sh [--build DIR] [--out DIR] [--seconds S]
#         [--bundle DIR] [--allow-no-gpu] [PART...]
#
# Parts (default: check bench):
#   check        gemm_check, everything; or check=SECTION[,SECTION...]
#   bench        N=K=8192, M=1..8192, paused 150 ms, cuBLAS beside it
#   shapes       other shapes of the benchmark set, cuBLAS beside them
#   sanitize     section sanitize under memcheck, racecheck and synccheck
#   demo         a daemon, the kernels of Qwen3-32B, one GEMM checked
#   replica      how long a worker takes to its first GEMM, cold and warm
# demo and replica need --bundle, the folder that `cmake --build ... --target
# bundle` made anywhere; the others CUDA 13 and cmake, none of the daemon's
# libraries. Exit 0: all is right and every part has run a test; with
# --allow-no-gpu a part may say instead that there is no GPU for it.
set -u

here=$(cd "$(dirname "$0")" && pwd)
build=${TMPDIR:-/tmp}/hummingd-gpu-tests
out=
bundle=
allow_no_gpu=
seconds=240
parts=
cuda=
while [ $# -gt 0 ]; do
	case $1 in
	--build) build=$2; shift ;;
	--out) out=$2; shift ;;
	--seconds) seconds=$2; shift ;;
	--bundle) bundle=$2; shift ;;
	--allow-no-gpu) allow_no_gpu=1 ;;
	check | check=* | bench | shapes | sanitize) parts="$parts $1" cuda=1 ;;
	demo | replica) parts="$parts $1" ;;
	*)
		echo "run.sh: unknown argument '$1', see the head of the file" >&2
		exit 2
		;;
	esac
	shift
done
[ -n "$parts" ] || parts="check bench" cuda=1
case "$parts" in
*demo* | *replica*)
	if [ ! -x "$bundle/hummingd" ]; then
		echo "run.sh: demo and replica need --bundle DIR" >&2
		exit 2
	fi
	;;
esac
[ -n "$out" ] || out=$build/out
mkdir -p "$build" "$out" || exit 1
PATH=$PATH:/usr/local/cuda/bin

model=$here/../data/qwen3-32b.json
begin=$(date +%s)
if [ -n "$cuda" ] && ! (cmake -S "$here" -B "$build" &&
	cmake --build "$build" -j "$(nproc)") >"$out/build.log" 2>&1; then
	tail -n 30 "$out/build.log" >&2
	echo "run.sh: the build failed" >&2
	exit 1
fi
[ -z "$cuda" ] || echo "run.sh: built in $(($(date +%s) - begin)) s"

failed=0
# run NAME COMMAND...: with a hard limit, kept in NAME.txt, shown but for "ok".
run() {
	name=$1
	shift
	begin=$(date +%s)
	timeout $((seconds + 60)) "$@" >"$out/$name.txt" 2>&1
	status=$?
	grep -v '^ok ' "$out/$name.txt" | tail -n 60
	echo "run.sh: $name: $(grep -c '^ok ' "$out/$name.txt") ok," \
		"$(grep -c '^not ok ' "$out/$name.txt") not ok," \
		"exit $status, $(($(date +%s) - begin)) s"
	[ $status -eq 0 ] || failed=1
	if ! grep -E '^(not )?ok ' "$out/$name.txt" | grep -qv '# SKIP'; then
		[ -n "$allow_no_gpu" ] && grep -q '^1\.\.0 # SKIP' "$out/$name.txt" &&
			return
		echo "run.sh: $name: no test has run" >&2
		failed=1
	fi
}

bench="$build/gemm_bench --seconds $seconds"
for part in $parts; do
	case $part in
	check) run check "$build/gemm_check" --seconds "$seconds" ;;
	check=*)
		sections=$(echo "${part#check=}" | tr , ' ')
		run "check-$(echo "$sections" | tr ' ' -)" \
			"$build/gemm_check" --seconds "$seconds" $sections
		;;
	bench) run bench $bench --pause 150 --cublas ;;
	shapes)
		for shape in 4096x8192 32768x1024 1024x4096 10240x5120 \
			5120x8192 51200x5120 5120x25600; do
			run "bench-$shape" $bench --shape $shape --pause 150 \
				--m 1,4,8,16,64,256,1024 --cublas
		done
		cat "$out"/bench-*x*.txt >"$out/shapes.txt"
		rm -f "$out"/bench-*x*.txt
		;;
	sanitize)
		# Only our kernels: the reference in double precision would take
		# minutes. Versions without the option check everything.
		only=--kernel-regex=kns=hm_
		compute-sanitizer $only true >/dev/null 2>&1 || only=
		for tool in memcheck racecheck synccheck; do
			run $tool compute-sanitizer --tool $tool $only \
				--error-exitcode 9 \
				"$build/gemm_check" --seconds "$seconds" sanitize
			grep SUMMARY "$out/$tool.txt" | sed "s/^=* /run.sh: $tool: /"
		done
		;;
	demo) run demo sh "$here/demo.sh" "$bundle" "$model" ;;
	replica) run replica "$bundle/humming-replica" --model "$model" ;;
	esac
done
exit $failed
