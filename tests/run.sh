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
usage: sh tests/run.sh [--preset NAME] [--build DIR] [--list] [--valgrind]
                      [TEST...]
       sh tests/run.sh --cppcheck

Build and run the tests, in TAP, by prove.
  --preset NAME  a preset of CMakePresets.json (default: release)
  --build DIR    build folder (default: build/NAME of the source tree)
  --list         build, then print the tests instead of running them
  --valgrind     under valgrind; without a TEST those of the client library
  --cppcheck     run no test: have cppcheck read the C sources
  TEST...        only programs whose path contains one of these words
END
}

fail() {
	echo "run.sh: $1" >&2
	exit "${2:-1}"
}

# Not repeated in an instrumented build. compile_kernels: a minute of NVRTC,
# which is not instrumented, and hardly a line of ours. it_same_key: about keys,
# and NVRTC again. it_hostile: a minute of waiting for the limits of workers,
# which are not instrumented. chaos_damage, chaos_frames: many starts of a daemon
# that the stories have seen instrumented. bench: nothing to time there.
skipped_when_instrumented='/(compile_kernels|it_same_key|it_hostile|bench.t|chaos_damage|chaos_frames)$'

preset=release
build=
words=
list_only=0
under_valgrind=0
only_cppcheck=0
while [ $# -gt 0 ]; do
	case $1 in
	--preset)
		[ $# -ge 2 ] || fail '--preset needs a name, see --help' 2
		preset=$2
		shift
		;;
	--build)
		[ $# -ge 2 ] || fail '--build needs a folder, see --help' 2
		build=$2
		shift
		;;
	--list) list_only=1 ;;
	--valgrind) under_valgrind=1 ;;
	--cppcheck) only_cppcheck=1 ;;
	-h | --help)
		usage
		exit 0
		;;
	-*) fail "unknown option '$1', see --help" 2 ;;
	*) words="$words $1" ;;
	esac
	shift
done
checks=
instrumented=0
case $preset in
dev | release) ;;
asan | tsan) instrumented=1 ;;
clang | analyze) checks=--checks ;;
fuzz | coverage)
	checks=--checks
	instrumented=1
	;;
*) fail "no preset '$preset', see CMakePresets.json" 2 ;;
esac
[ "$under_valgrind" = 0 ] || {
	[ "$instrumented" = 0 ] || fail '--valgrind and a sanitizer exclude each other' 2
	checks=--checks
	words=${words:-' /test_client_'}
	export HM_TEST_UNDER='valgrind -q --error-exitcode=99 --leak-check=full
		--show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect'
}
if [ "$only_cppcheck" = 1 ]; then
	sh "$root/systemd/setup.sh" --tests --checks --quiet
	cd "$root"
	# Without the lists of <sys/queue.h> it takes every macro for an error.
	exec cppcheck --quiet --std=c11 --enable=warning,performance,portability \
		--inline-suppr --error-exitcode=1 -j "$(nproc)" -I . -I client/include \
		-D_GNU_SOURCE -DHM_VERSION='""' -DHM_SBIN_DIR='""' -DHM_LIBEXEC_DIR='""' \
		--include=/usr/include/"$(gcc -print-multiarch)"/sys/queue.h \
		proto cache jit daemon client
fi
build=${build:-$root/build/$preset}
case $build in
/*) ;;
*) build=$PWD/$build ;;
esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' HUP INT TERM

sh "$root/systemd/setup.sh" --tests $checks --quiet
cd "$root"
mkdir -p "$build"
if ! { cmake --preset "$preset" -B "$build" -DHUMMING_TESTS=ON && cmake --build "$build"; } \
	>"$build/build.log" 2>&1; then
	grep -E '^FAILED|(error|warning):' "$build/build.log" >&2 || tail -n 40 "$build/build.log" >&2
	fail "the build failed (log: $build/build.log)"
fi

# Counters of an older source would be mixed with those of this one.
[ "$preset" != coverage ] || find "$build" -name '*.gcda' -exec rm -f {} +

# The programs to run, one path a line.
list=$scratch/list
{
	cat "$build/tests.list"
	ls "$root"/tests/integration/*.t "$root"/tests/lint/*.t
} >"$scratch/all"
[ "$instrumented" = 0 ] || {
	grep -v -E -- "$skipped_when_instrumented" "$scratch/all" >"$list"
	mv "$list" "$scratch/all"
}
if [ -n "$words" ]; then
	for word in $words; do
		grep -F -- "$word" "$scratch/all" >>"$list" || fail "no test matches '$word'"
	done
else
	cp "$scratch/all" "$list"
fi
if [ "$list_only" = 1 ]; then
	awk '!seen[$0]++' "$list"
	exit 0
fi

# What a sanitizer says goes into files, as no test sees the end of every process
# that it starts; one file is a failure, whatever the tests say.
reports=$scratch/reports
mkdir "$reports"
export ASAN_OPTIONS="log_path=$reports/asan${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
export TSAN_OPTIONS="log_path=$reports/tsan:second_deadlock_stack=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}"
# ThreadSanitizer of gcc 12 dies at its start under more than 28 random bits.
launcher=
if [ "$preset" = tsan ] && setarch -R true 2>/dev/null; then
	launcher='setarch -R'
fi

export HM_BIN_DIR="$build/bin"
# Unit tests side by side; all others one at a time: they time out honestly only
# on free cores, and so does the worker's.
side_by_side='/tests/(unit|kernels)/(test_|host_)'
alone='/test_worker$'
status=0
run_tests() {
	xargs -r $launcher prove --timer "$@" --exec "$root/tests/tap-run"
}
awk '!seen[$0]++' "$list" >"$scratch/order"
grep -E -- "$side_by_side" "$scratch/order" | grep -v -E -- "$alone" |
	run_tests -j "$(nproc)" || status=$?
awk -v beside="$side_by_side" -v alone="$alone" '$0 !~ beside || $0 ~ alone' \
	"$scratch/order" | run_tests || status=$?
for report in "$reports"/*; do
	[ -s "$report" ] || continue
	sed 's/^/# /' "$report"
	status=1
done
[ -z "$(ls "$reports")" ] || echo "run.sh: sanitizer reports above" >&2
exit "$status"
