#!/usr/bin/env bash
# usage: cuda_toolkit.sh CUDA.CMAKE CMAKE
# Which toolkits the build takes, and what it says of the others. The toolkits are made of a stub nvcc and empty headers.
# shellcheck disable=SC2016 # the bodies of the stubs are for the stubs to expand
set -euo pipefail
module="$1"
cmake="$2"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# toolkit NAME RELEASE BIN INCLUDE: nvcc of RELEASE in BIN, which takes no compiler but /usr/bin/g++-NN.
toolkit() {
  mkdir -p "$work/$1/$3" "$work/$1/$4"
  touch "$work/$1/$4/cublasLt.h" "$work/$1/$4/cupti.h"
  printf '#!/bin/bash\nrelease=%s\n%s\n' "$2" '
if [[ "$1" == --version ]]; then
  echo "Cuda compilation tools, release $release, V$release.99"
  exit
fi
while [[ "$1" != -ccbin ]]; do shift; done
[[ "$2" == /usr/bin/g++-* || "$2" == /taken/c++ ]]' >"$work/$1/$3/nvcc"
  chmod +x "$work/$1/$3/nvcc"
}
# Includes the module with the options given; sets status and output.
run() {
  printf 'include(%s)\nmessage(STATUS "has ${RIDGEPOINT_HAS_CUDA} version ${RIDGEPOINT_CUDA_VERSION} host ${RIDGEPOINT_NVCC_HOST_COMPILER} headers ${RIDGEPOINT_CUDA_INCLUDE_DIR}")\n' \
    "$module" >"$work/probe.cmake"
  status=0
  # Messages are wrapped at the width that a terminal is taken to have.
  output="$(cd "$work" && env -u CUDA_HOME -u CUDA_PATH "$cmake" -DCMAKE_CXX_COMPILER=/taken/c++ "$@" -P probe.cmake 2>&1 |
    tr -s '\n ' ' ')" || status=$?
}
fail() {
  printf 'FAILED: %s\nstatus %s, output:\n%s\n' "$1" "$status" "$output" >&2
  exit 1
}
expect_status() { [[ "$status" == "$1" ]] || fail "expected status $1"; }
expect_text() { [[ "$output" == *"$1"* ]] || fail "expected the words: $1"; }

# Of 12.4 and later, as NVIDIA lays it out and as Debian does.
toolkit new 13.0 bin include
run -DRIDGEPOINT_NVCC="$work/new/bin/nvcc"
expect_status 0
expect_text "toolkit 13.0"
expect_text "has ON version 13.0 host /taken/c++ headers $work/new/include"
toolkit debian 12.4 usr/bin usr/include
run -DRIDGEPOINT_NVCC="$work/debian/usr/bin/nvcc"
expect_text "has ON version 12.4 host /taken/c++ headers $work/debian/usr/include"

# One that refuses the project's compiler gets another; without any it is left out, and says why.
run -DRIDGEPOINT_NVCC="$work/debian/usr/bin/nvcc" -DCMAKE_CXX_COMPILER=/refused/c++
expect_text "has ON version 12.4 host /usr/bin/g++-"
sed -i 's|^\[\[.*|false|' "$work/debian/usr/bin/nvcc"
run -DRIDGEPOINT_NVCC="$work/debian/usr/bin/nvcc" -DCMAKE_CXX_COMPILER=/refused/c++
expect_status 0
expect_text "not built: nvcc 12.4 does not work with /refused/c++"
expect_text "has OFF"

# One too old: left out, or refused where it was asked for.
toolkit old 12.3 bin include
run -DRIDGEPOINT_NVCC="$work/old/bin/nvcc"
expect_status 0
expect_text "not built: $work/old/bin/nvcc is of CUDA 12.3, and 12.4 or newer is needed"
run -DRIDGEPOINT_CUDA=ON -DRIDGEPOINT_NVCC="$work/old/bin/nvcc"
expect_status 1
expect_text "RIDGEPOINT_CUDA is ON, but"
# nvcc is enough: the headers of its libraries are for a test alone.
toolkit headless 13.0 bin include
rm "$work/headless/include/"*.h
run -DRIDGEPOINT_NVCC="$work/headless/bin/nvcc"
expect_text "has ON version 13.0"
run -DRIDGEPOINT_CUDA=OFF -DRIDGEPOINT_NVCC="$work/new/bin/nvcc"
expect_text "has OFF"
echo "ok"
