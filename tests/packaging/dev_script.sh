#!/usr/bin/env bash
# usage: dev_script.sh DEV
# What `dev` says and does where things are missing. The system it sees is made of stub commands put before PATH,
# so nothing is installed and no network is used.
# shellcheck disable=SC2016 # the bodies of the stubs are for the stubs to expand
set -euo pipefail
dev="$1"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"

stub() { # NAME BODY
  printf '#!/bin/bash\n%s\n' "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
# Runs dev with the stubs; sets status and output.
run() {
  status=0
  output="$(PATH="$work/bin:$PATH" "$dev" "$@" 2>&1 </dev/null)" || status=$?
}
fail() {
  printf 'FAILED: %s\nstatus %s, output:\n%s\n' "$1" "$status" "$output" >&2
  exit 1
}
expect_status() { [[ "$status" == "$1" ]] || fail "expected status $1"; }
expect_text() { [[ "$output" == *"$1"* ]] || fail "expected the words: $1"; }
expect_no_text() { [[ "$output" != *"$1"* ]] || fail "did not expect the words: $1"; }

# Alone, it prints help that names every command.
run
expect_status 0
for command in demo test build bench lint fuzz golden; do expect_text "  $command"; done

run frobnicate
expect_status 2
expect_text "no command 'frobnicate'"

# A missing package with neither root nor sudo: says which, and what to type.
stub dpkg-query '[[ "${@: -1}" == libdnnl-dev ]] || echo -n installed'
stub id 'echo 1000'
stub sudo 'exit 1'
stub cmake 'echo "cmake $*" >>"$0.log"'
run build
expect_status 1
expect_text "apt-get install libdnnl-dev"
expect_no_text "ninja-build"

# As root, with no network: says that apt failed, and why.
stub id 'echo 0'
stub apt-get '[[ "$1" == update ]] || { echo "E: Unable to fetch some archives" >&2; exit 100; }'
run build
expect_status 1
expect_text "installing with apt: libdnnl-dev"
expect_text "E: Unable to fetch some archives"
expect_text "Check the network"

# RIDGEPOINT_NO_INSTALL leaves installing to the person.
RIDGEPOINT_NO_INSTALL=1 run build
expect_status 0
expect_no_text "installing"

# With everything there, nothing is installed and nothing is said of it.
stub dpkg-query 'echo -n installed'
stub apt-get 'echo "apt-get was called"; exit 1'
run build
expect_status 0
expect_no_text "apt"

run build frobnicate
expect_status 1
expect_text "no preset 'frobnicate'"
grep -q -- "--target ridgepoint" "$work/bin/cmake.log" || fail "cmake was not asked to build the program"
echo "ok"
