#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# demo.sh - the last steps of client/try.sh with the programs of a bundle: a
# private daemon with an empty store, the kernels of a model built and fetched,
# GEMMs run with them and checked against the CPU's reference. TAP.
#
#     sh tests/gpu/demo.sh BUNDLE MODEL.json
set -u

bundle=$1
model=$2
n=0
failed=0

# step NAME COMMAND...: one TAP line, the output before it as comments.
step() {
	name=$1
	shift
	n=$((n + 1))
	begin=$(date +%s%3N)
	if "$@" >"$work/out" 2>&1; then
		result=ok
	else
		result="not ok"
		failed=1
	fi
	sed 's/^/# /' "$work/out"
	echo "$result $n - $name # $(($(date +%s%3N) - begin)) ms"
}

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
arch=$("$bundle/humming-gemm-demo" --arch 2>"$work/out") || {
	echo "1..0 # SKIP $(cat "$work/out")"
	exit 0
}
HUMMING_SOCKET=$work/socket
export HUMMING_SOCKET
mkfifo "$work/ready"
HUMMING_READY_FD=3 "$bundle/hummingd" -f --private --socket "$HUMMING_SOCKET" \
	--store "$work/store" 3>"$work/ready" 2>"$work/log" &
read -r ready <"$work/ready" || ready=
step "hummingd listens" [ "$ready" = ready ]
step "the model's kernels are built" \
	"$bundle/hummingctl" prewarm --model "$model" --quant w4a16 --arch "$arch"
step "and fetched" \
	"$bundle/hummingctl" get --model "$model" --quant w4a16 --arch "$arch"
step "a GEMM is right" "$bundle/humming-gemm-demo"
step "M = 1 is right" "$bundle/humming-gemm-demo" --m 1 --n 8192 --k 8192
step "odd sizes are right" \
	"$bundle/humming-gemm-demo" --m 300 --n 1000 --k 2008
step "the daemon stops" "$bundle/hummingctl" stop
wait
[ $failed -eq 0 ] || sed 's/^/# hummingd: /' "$work/log"
echo "1..$n"
exit $failed
