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
for command in demo train-demo test build bench package lint fuzz golden; do expect_text "  $command"; done

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

# Where packages have other names it says which are wanted; derivatives of Debian and Ubuntu have the same.
system() { # LINE...
  printf '%s\n' "$@" >"$work/os-release"
  export RIDGEPOINT_OS_RELEASE="$work/os-release"
}
system 'ID=fedora' 'VERSION_ID=40' 'PRETTY_NAME="Fedora Linux 40"'
run build
expect_status 1
expect_text "Fedora Linux 40"
expect_text "libdnnl-dev"
expect_text "RIDGEPOINT_NO_INSTALL=1"
expect_no_text "installing"
system 'ID=void'
run build
expect_status 1
expect_text "this is void"
for lines in 'ID=debian' 'ID=ubuntu ID_LIKE=debian' 'ID=linuxmint ID_LIKE="ubuntu debian"' 'ID=neon ID_LIKE="ubuntu"'; do
  system "$lines"
  run build
  expect_text "installing with apt: libdnnl-dev"
done
unset RIDGEPOINT_OS_RELEASE

# LLVM's tools: the version that the project is checked with, or the nearest newer one that the release has.
stub dpkg-query '[[ "${@: -1}" =~ ^(clang|libclang|libomp) ]] || echo -n installed'
stub apt-cache '[[ "$2" =~ -1[789](-dev)?$ ]]'
PATH_OF_TOOLS="$work/tools"
mkdir "$PATH_OF_TOOLS"
for tool in bash env grep cat mktemp rm dirname tail nproc; do ln -s "$(command -v "$tool")" "$PATH_OF_TOOLS/$tool"; done
run_bare() { PATH="$PATH_OF_TOOLS" run "$@"; } # without the LLVM of this machine
run_bare lint
expect_text "installing with apt: clang-format-17 clang-tidy-17 clang-tools-17 libomp-17-dev"
run_bare fuzz
expect_text "installing with apt: clang-17 libclang-rt-17-dev libomp-17-dev"
stub apt-cache 'exit 0'
run_bare lint
expect_text "installing with apt: clang-format-14 clang-tidy-16 clang-tools-16 libomp-16-dev"

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

# The last line after the tests counts those that need a card. dev runs in a copy, whose build folder is made up.
mkdir -p "$work/copy/build/tests"
cp "$dev" "$work/copy/dev"
dev="$work/copy/dev"
stub ctest 'while [[ "$1" != --output-junit ]]; do shift; done
mkdir -p "$(dirname "$2")"
cat >"$2" <<XML
	<testcase name="Plan.is_made" status="run">
		<system-out>OnCard</system-out>
	</testcase>
	<testcase name="OnCardAdamW.agrees" status="notrun">
		<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
	</testcase>
	<testcase name="All/OnCardRope.agrees/fp32" status="notrun">
		<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
	</testcase>
	<testcase name="OnCardMatmul.agrees" status="run">
	</testcase>
	<testcase name="compare_torch" status="notrun">
		<skipped message="SKIP_RETURN_CODE=77"/>
	</testcase>
XML
exit "${FAKE_CTEST:-0}"'
run test
expect_status 0
[[ "${output##*$'\n'}" == "2 tests need a card and were skipped" ]] || fail "the last line does not count tests on a card"
FAKE_CTEST=8 run test
expect_status 8
expect_text "2 tests need a card and were skipped"

# A package: what cpack says only if it fails.
stub cpack 'echo "CPack Error: no such folder"; exit 1'
run package
expect_status 1
expect_text "CPack Error: no such folder"
expect_text "cpack could not make the package"
stub cpack 'mkdir -p package && touch package/ridgepoint_0.1.0_amd64.deb'
run package
expect_status 0
[[ "${output##*$'\n'}" == build/package/ridgepoint_0.1.0_amd64.deb ]] || fail "the last line does not name the package"
grep -q -- "--target packaged" "$work/bin/cmake.log" || fail "cmake was not asked to build all that is packed"
run package install
expect_status 1
expect_text "package takes 'check' or nothing, not 'install'"
echo "ok"
