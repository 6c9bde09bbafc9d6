#!/usr/bin/env bash
# usage: install_check.sh BUILD_DIR EXAMPLES_DIR COMPILER
# Installs the build into a fresh prefix, then configures, builds and runs each example against that prefix alone.
set -euo pipefail
build_dir="$1" examples_dir="$2" compiler="$3"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

cmake --install "$build_dir" --prefix "$work/prefix" >/dev/null
for example in install_check own_model; do
  cmake -S "$examples_dir/$example" -B "$work/$example" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_FIND_PACKAGE_NO_PACKAGE_REGISTRY=ON
  grep -q "^ridgepoint_DIR:PATH=$work/prefix/" "$work/$example/CMakeCache.txt"
  cmake --build "$work/$example"
  "$work/$example/$example" | tee "$work/$example.txt"
done
# The profile of a model of one's own names the modules that it was built with.
grep -q 'fc1' "$work/own_model.txt"
grep -q 'relu' "$work/own_model.txt"
"$work/prefix/bin/ridgepoint" --help >/dev/null
