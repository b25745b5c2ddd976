#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# setup.sh - everything that building (and with --tests: testing) hummingd needs
# on Debian 12: packages by apt, and NVRTC.
#
# NVRTC is taken from CUDA_HOME or /usr/local/cuda when it is there; otherwise
# from the nvidia-cuda-nvrtc wheel of PyPI, unpacked into a private prefix
# (/opt/humming/nvrtc as root, else ~/.local/share/humming/nvrtc), which
# humming-worker searches by itself. Asks no question; a second run is quick and
# needs no network.
set -eu

NVRTC_WHEEL='nvidia-cuda-nvrtc==13.0.88'
BUILD_PACKAGES='gcc libc6-dev cmake ninja-build pkg-config
  libevent-dev liblmdb-dev libprotobuf-c-dev protobuf-c-compiler
  libsodium-dev libxxhash-dev libjansson-dev libinih-dev'
TEST_PACKAGES='g++ libcmocka-dev perl clang-format systemd util-linux procps
  python3'
CHECK_PACKAGES='clang clang-tidy libclang-rt-14-dev llvm gcovr valgrind cppcheck'

usage() {
	cat <<END
usage: sh systemd/setup.sh [--tests] [--checks] [--nvrtc-wheel] [--quiet]

Install what building hummingd needs (Debian 12).
  --tests        also what the tests need
  --checks       also clang and the tools of the presets clang, fuzz, analyze
                 and coverage, valgrind, cppcheck
  --nvrtc-wheel  unpack the NVRTC wheel even where a CUDA toolkit is installed
  --quiet        say nothing unless something is installed or fails
END
}

fail() {
	echo "setup.sh: $1" >&2
	exit 1
}

say() {
	[ "$quiet" = 1 ] || echo "setup.sh: $1"
}

# Names of the packages in $1 that are not installed.
missing_packages() {
	for package in $1; do
		dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null |
			grep -q '^install ok installed$' || printf ' %s' "$package"
	done
}

install_packages() {
	missing=$(missing_packages "$1")
	[ -n "$missing" ] || return 0
	[ "$(id -u)" = 0 ] ||
		fail "packages are missing and only root can install them: apt-get install$missing"
	echo "setup.sh: installing$missing"
	export DEBIAN_FRONTEND=noninteractive
	log=$(mktemp)
	# shellcheck disable=SC2086  # a list of names
	if ! { apt-get update -qq -o DPkg::Lock::Timeout=300 &&
		apt-get install -y -qq --no-install-recommends \
			-o DPkg::Lock::Timeout=300 $missing; } >"$log" 2>&1 </dev/null; then
		tail -n 5 "$log" >&2
		fail "apt-get could not install$missing (log: $log)"
	fi
	rm -f "$log"
}

# The folder with libnvrtc of an installed toolkit, if any.
toolkit_nvrtc() {
	for root in "${CUDA_HOME:-}" /usr/local/cuda; do
		[ -n "$root" ] || continue
		for folder in "$root/lib64" "$root/targets/x86_64-linux/lib" "$root/lib"; do
			for library in "$folder"/libnvrtc.so.1[2-9]; do
				[ -e "$library" ] && echo "$folder" && return 0
			done
		done
	done
	return 1
}

install_nvrtc_wheel() {
	if [ "$(id -u)" = 0 ]; then
		prefix=/opt/humming/nvrtc
	else
		prefix="${XDG_DATA_HOME:-$HOME/.local/share}/humming/nvrtc"
	fi
	for ready in "$prefix" /opt/humming/nvrtc; do
		if [ "$(cat "$ready/wheel" 2>/dev/null)" = "$NVRTC_WHEEL" ]; then
			say "NVRTC: $ready"
			return 0
		fi
	done
	install_packages 'python3 python3-pip ca-certificates'
	echo "setup.sh: unpacking $NVRTC_WHEEL into $prefix"
	mkdir -p "$prefix"
	log=$(mktemp)
	if ! python3 -m pip install --quiet --no-deps --upgrade --no-input \
		--disable-pip-version-check --target "$prefix" "$NVRTC_WHEEL" \
		>"$log" 2>&1 </dev/null; then
		tail -n 5 "$log" >&2
		fail "pip could not fetch $NVRTC_WHEEL (log: $log)"
	fi
	rm -f "$log"
	echo "$NVRTC_WHEEL" >"$prefix/wheel"
}

tests=0
checks=0
quiet=0
wheel=0
for argument in "$@"; do
	case $argument in
	--tests) tests=1 ;;
	--checks) checks=1 ;;
	--quiet) quiet=1 ;;
	--nvrtc-wheel) wheel=1 ;;
	-h | --help)
		usage
		exit 0
		;;
	*)
		echo "setup.sh: unknown option '$argument', see --help" >&2
		exit 2
		;;
	esac
done

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
	fail 'this is for Debian 12; elsewhere install the packages named in this script by hand'
packages=$BUILD_PACKAGES
[ "$tests" = 0 ] || packages="$packages $TEST_PACKAGES"
[ "$checks" = 0 ] || packages="$packages $CHECK_PACKAGES"
install_packages "$packages"
if [ "$wheel" = 0 ] && nvrtc=$(toolkit_nvrtc); then
	say "NVRTC: $nvrtc"
else
	install_nvrtc_wheel
fi
