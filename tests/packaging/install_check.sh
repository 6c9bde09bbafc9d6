#!/usr/bin/env bash
# usage: install_check.sh BUILD_DIR EXAMPLE_DIR COMPILER
# Installs the build into a fresh prefix, then configures, builds and runs the example against that prefix alone.
set -euo pipefail
build_dir="$1" example_dir="$2" compiler="$3"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

cmake --install "$build_dir" --prefix "$work/prefix" >/dev/null
cmake -S "$example_dir" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_FIND_PACKAGE_NO_PACKAGE_REGISTRY=ON
grep -q "^ridgepoint_DIR:PATH=$work/prefix/" "$work/build/CMakeCache.txt"
cmake --build "$work/build"
"$work/build/install_check"
"$work/prefix/bin/ridgepoint" --help >/dev/null
