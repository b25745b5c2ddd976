#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh - build hummingd and run every test that needs no GPU.
#
# Does its own set-up on a fresh Debian 12 machine (systemd/setup.sh).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)

usage() {
	cat <<END
usage: sh tests/run.sh [--preset NAME] [--build DIR] [TEST...]

Build and run the tests, in TAP, by prove.
  --preset NAME  release (default), dev or asan
  --build DIR    build folder (default: build/NAME of the source tree)
  TEST...        only programs whose path contains one of these words
END
}

preset=release
build=
filter=
while [ $# -gt 0 ]; do
	case $1 in
	--preset)
		[ $# -ge 2 ] || { echo "run.sh: --preset needs a name, see --help" >&2; exit 2; }
		preset=$2
		shift
		;;
	--build)
		[ $# -ge 2 ] || { echo "run.sh: --build needs a folder, see --help" >&2; exit 2; }
		build=$2
		shift
		;;
	-h | --help)
		usage
		exit 0
		;;
	-*)
		echo "run.sh: unknown option '$1', see --help" >&2
		exit 2
		;;
	*) filter="$filter $1" ;;
	esac
	shift
done
build=${build:-$root/build/$preset}

sh "$root/systemd/setup.sh" --tests --quiet
cd "$root"
log=$(mktemp)
if ! { cmake --preset "$preset" -B "$build" && cmake --build "$build"; } >"$log" 2>&1; then
	tail -n 40 "$log" >&2
	echo "run.sh: the build failed (log: $log)" >&2
	exit 1
fi
rm -f "$log"

export HM_BIN_DIR="$build/bin"
list=$(mktemp)
cat "$build/tests.list" >"$list"
ls "$root"/tests/integration/*.t "$root"/tests/lint/*.t 2>/dev/null >>"$list" || :
for word in $filter; do
	grep -- "$word" "$list" >"$list.new" || { echo "run.sh: no test matches '$word'" >&2; exit 1; }
	mv "$list.new" "$list"
done
# One at a time: the integration tests time out honestly only on free cores.
status=0
xargs prove --timer --exec "$root/tests/tap-run" <"$list" || status=$?
rm -f "$list"
exit "$status"
