#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# try.sh - see hummingd work, from nothing: install what is missing, build, start
# a private daemon on a temporary socket and store, build the kernels of a real
# model, fetch them twice as a worker would, and stop the daemon. Needs no GPU;
# with one it also runs a GEMM and checks it against the CPU reference.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)

usage() {
	cat <<END
usage: sh client/try.sh [--arch A] [--model JSON] [--quant Q] [--build DIR]

  --arch A      GPU architecture to build for (default: the GPU's, else sm_90a)
  --model JSON  config.json of a model, or its folder (default: Qwen3-32B)
  --quant Q     quantization, as hummingctl plan takes it (default: w4a16)
  --build DIR   build folder (default: build/try of the source tree)

example: sh client/try.sh --arch sm_80 --quant w4a16,group=64
END
}

fail() {
	echo "try.sh: $1" >&2
	exit 1
}

arch=
model=$root/tests/data/qwen3-32b.json
quant=w4a16
build=$root/build/try
while [ $# -gt 0 ]; do
	case $1 in
	--arch | --model | --quant | --build)
		[ -n "${2:-}" ] || { echo "try.sh: $1 needs a value, see --help" >&2; exit 2; }
		case $1 in
		--arch) arch=$2 ;;
		--model) model=$2 ;;
		--quant) quant=$2 ;;
		--build) build=$2 ;;
		esac
		shift
		;;
	-h | --help)
		usage
		exit 0
		;;
	*)
		echo "try.sh: unknown argument '$1', see --help" >&2
		exit 2
		;;
	esac
	shift
done

case $build in
/*) ;;
*) build=$PWD/$build ;;
esac
[ -r "$model" ] || fail "model '$model': cannot be read"

sh "$root/systemd/setup.sh" --quiet
echo "try.sh: building in $build"
log=$(mktemp)
if ! (cd "$root" && cmake --preset release -B "$build" -DHUMMING_TESTS=OFF &&
	cmake --build "$build") >"$log" 2>&1; then
	tail -n 40 "$log" >&2
	fail "the build failed (log: $log)"
fi
rm -f "$log"
bin=$build/bin

if [ -z "$arch" ]; then
	arch=$("$bin/humming-gemm-demo" --arch 2>/dev/null) || arch=sm_90a
fi
# What was asked for is judged before anything runs.
"$bin/hummingctl" plan --model "$model" --quant "$quant" --arch "$arch" >/dev/null || exit

work=$(mktemp -d)
daemon=
cleanup() {
	if [ -n "$daemon" ]; then
		kill "$daemon" 2>/dev/null || :
		wait "$daemon" 2>/dev/null || :
	fi
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM PIPE

# The daemon writes "ready" to descriptor 3 once it listens.
mkfifo "$work/ready"
HUMMING_READY_FD=3 "$bin/hummingd" -f --private --socket "$work/hummingd.sock" \
	--store "$work/store" 3>"$work/ready" 2>"$work/log" &
daemon=$!
read -r ready <"$work/ready" || ready=
[ "$ready" = ready ] || fail "hummingd did not start: $(tail -n 1 "$work/log")"
export HUMMING_SOCKET="$work/hummingd.sock"

"$bin/hummingctl" prewarm --model "$model" --quant "$quant" --arch "$arch"
for fetch in first second; do
	echo
	echo "$fetch fetch, as a worker would:"
	"$bin/hummingctl" get --model "$model" --quant "$quant" --arch "$arch"
done
echo
"$bin/hummingctl" stats
if "$bin/humming-gemm-demo" --arch >/dev/null 2>&1; then
	echo
	"$bin/humming-gemm-demo"
else
	echo "no GPU here: the kernels were built and fetched, none was run"
fi
"$bin/hummingctl" stop
wait "$daemon" || fail "hummingd did not stop cleanly: $(tail -n 1 "$work/log")"
daemon=
