#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh - build the GPU tests and run them, with a summary at the end.
#
#     sh tests/gpu/run.sh [--build DIR] [--out DIR] [--seconds S]
#         [--bundle DIR] [--allow-no-gpu] [PART...]
#
# Parts (default: check dense):
#   check        gemm_check, everything; or check=SECTION[,SECTION...]
#   quick        gemm_check --thin, all sections but large
#   dense        bench_dense: every class at 8192x8192 and at real shapes, cuBLAS
#                and cuBLASLt beside it; dense.json in the folder for output
#   square, real the two halves of dense
#   tune         every candidate of the plan at these sizes; rows.txt and
#                times.txt beside it
#   choice       the plan's choice at 20 random shapes
#                dense, real, tune and choice take =CLASS,...[:SHAPE,...[:M,...]], each
#                list may be empty: dense=w4a16:square:1,16
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
	check | check=* | quick | dense | dense=* | square | square=* | \
		real | real=* | tune | tune=* | choice | choice=* | sanitize)
		parts="$parts $1" cuda=1
		;;
	demo | replica) parts="$parts $1" ;;
	*)
		echo "run.sh: unknown argument '$1', see the head of the file" >&2
		exit 2
		;;
	esac
	shift
done
[ -n "$parts" ] || parts="check dense" cuda=1
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
lines=60
# run NAME COMMAND...: with a hard limit, kept in NAME.txt, shown but for "ok".
run() {
	name=$1
	shift
	begin=$(date +%s)
	timeout $((seconds + 60)) "$@" >"$out/$name.txt" 2>&1
	status=$?
	grep -v '^ok ' "$out/$name.txt" | tail -n "$lines"
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

# selection PART: the options that PART=CLASSES:SHAPES:M stands for.
selection() {
	case $1 in *=*) ;; *) return ;; esac
	echo "${1#*=}" | tr ' ' _ | awk -F: '{
		if ($1 != "") printf "--class %s ", $1
		if ($2 != "") printf "--shape %s ", $2
		if ($3 != "") printf "--m %s", $3
	}'
}

# The card's clock and power, as found: never set.
clocks() {
	nvidia-smi --query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu \
		--format=csv,noheader 2>/dev/null | sed "s/^/run.sh: $1: /"
}

for part in $parts; do
	case $part in
	check) run check "$build/gemm_check" --seconds "$seconds" ;;
	check=*)
		sections=$(echo "${part#check=}" | tr , ' ')
		run "check-$(echo "$sections" | tr ' ' -)" \
			"$build/gemm_check" --seconds "$seconds" $sections
		;;
	quick)
		run check "$build/gemm_check" --thin --seconds "$seconds" \
			reference cases pack quant plan tiles exact repeat \
			split batch chain generic ptx
		;;
	dense | dense=* | square | square=* | real | real=*)
		name=${part%%=*}
		shapes=
		[ "$name" = dense ] || shapes="--shape $name"
		lines=150
		clocks "before $name"
		run "$name" "$build/bench_dense" --seconds "$seconds" \
			--json "$out/$name.json" $shapes $(selection "$part")
		clocks "after ${part%%=*}"
		lines=60
		;;
	tune | tune=*)
		run tune "$build/tune" --seconds "$seconds" \
			--rows "$out/rows.txt" --times "$out/times.txt" \
			$(selection "$part")
		;;
	choice | choice=*)
		lines=200
		run choice "$build/tune" --choice --seconds "$seconds" \
			$(selection "$part")
		lines=60
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
