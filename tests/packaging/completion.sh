#!/usr/bin/env bash
# usage: completion.sh PROGRAM
# What the shells complete. Bash's completion runs in this bash; the scripts of zsh and fish are run where these shells are.
set -euo pipefail
program="$1"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

fail() {
  printf 'FAILED: %s\n' "$1" >&2
  exit 1
}

for shell in bash zsh fish; do "$program" completion "$shell" >"$work/$shell"; done
# shellcheck source=/dev/null
source "$work/bash"
complete -p ridgepoint | grep -- '-F _ridgepoint ridgepoint' >/dev/null || fail "bash does not know the function"

# What is piped to grep is read to its end: with -q grep would leave early, and pipefail would take that for a failure.

# completed WORD...: what bash offers for the last word, one a line. Words are as bash splits them: at = and : too.
completed() {
  COMP_WORDS=(ridgepoint "$@")
  COMP_CWORD=$#
  _ridgepoint
  printf '%s\n' ${COMPREPLY[@]+"${COMPREPLY[@]}"}
}
# expect OFFERED WORD...: bash offers these, separated by spaces, and nothing else.
expect() {
  local wanted="$1" offered
  shift
  offered="$(completed "$@" | paste -sd ' ')"
  [[ "$offered" == "$wanted" ]] || fail "for '$*': expected '$wanted', got '$offered'"
}
# expect_among OFFERED WORD...: bash offers this, and perhaps more.
expect_among() {
  local wanted="$1"
  shift
  completed "$@" | grep -xF -- "$wanted" >/dev/null || fail "for '$*': '$wanted' is not offered"
}

# Commands.
expect "bench" be
expect "plan precision profile published" p
expect_among "help" ""
expect_among "--version" --
expect "bench" help be

# Options of the command, and of no other.
expect "--layers" bench --la
expect "--steps" bench --st
expect "" plan --steps
expect_among "--help" verify --
expect "-h" plan -h
! completed bench -- | grep first-call-row >/dev/null || fail "an option that the help hides is offered"

# Values, in lists and after = too.
expect "small" bench --model sma
expect "small" bench --layers 2 --model sma
expect "fp32,bf16" bench --dtype fp32,b
expect "bf16" bench --dtype = b
expect "bf16,fp32 bf16,fp16 bf16,fp8" bench --dtype = bf16,f
expect "off fuse full" plan --compile = ""
expect "fuse full" plan --compile f
expect "training_forward" bench --mode tr
expect "flash" attention --attention fl
expect "table" bench --format t
expect "" bench --format table,m
expect "eager" bench --peers torch : e
expect "--dtype=bf16" bench --dtype=b
expect "" bench --batch ""

# Cards have blanks in their names, and are found whatever the case.
expect 'RTX\ A4500' plan --card 'rtx\ a45'
expect 'RTX A4500' plan --card '"RTX a45'
expect 'h100,L40 h100,L40S' plan --card h100,l40

# Flags take no value, and a value that may be left out gives way to an option.
expect "" bench --phases f
expect "dtype d_model" attention --pivot d
expect "--baseline" attention --pivot --bas

# Files, and arguments without a name.
touch "$work/snapshot.pickle"
expect "$work/snapshot.pickle" snapshot "$work/snap"
expect "$work/snapshot.pickle" bench --output "$work/snap"
expect "zsh" completion z

# Every command that the help lists has its options in each script.
mapfile -t commands < <("$program" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]\+\) .*/\1/p')
((${#commands[@]} > 9)) || fail "the help lists ${#commands[@]} commands"
for command in "${commands[@]}"; do
  expect_among "$command" ""
  expect_among "--help" "$command" --h
  grep -q "^    $command)$" "$work/zsh" || fail "zsh does not complete the options of $command"
  grep -q "'__ridgepoint_runs $command' -s h -l help" "$work/fish" || fail "fish does not complete the options of $command"
done

grep -qF "'--compile=[graph compilation]:NAME:_sequence compadd - off fuse full'" "$work/zsh" ||
  fail "zsh does not offer the values of --compile"
grep -qF -- "RTX\\ A4500" "$work/zsh" || fail "blanks in the names of cards are not escaped for zsh"
grep -qF -- "-l output -r -F -d 'write to this file'" "$work/fish" || fail "fish does not offer files for --output"
grep -qF -- "-l compile -x -a '(__fish_append , \\'off\\' \\'fuse\\' \\'full\\')'" "$work/fish" ||
  fail "fish does not offer the values of --compile"

# The scripts of shells that are not here were compared as text only.
if command -v zsh >/dev/null; then zsh -n "$work/zsh"; fi
if command -v fish >/dev/null; then
  fish --no-execute "$work/fish"
  offers() { fish --no-config --command "source $work/fish; complete --do-complete '$1'" | cut -f1 | paste -sd ' '; }
  [[ "$(offers 'ridgepoint be')" == bench ]] || fail "fish does not complete a command"
  [[ "$(offers 'ridgepoint bench --model sma')" == small ]] || fail "fish does not complete a model"
  [[ "$(offers 'ridgepoint bench --dtype fp32,b')" == fp32,bf16 ]] || fail "fish does not complete a list"
  [[ "$(offers 'ridgepoint plan --steps')" == "" ]] || fail "fish offers an option of another command"
fi

# The same as data.
"$program" completion json | python3 -c '
import json, sys
commands = {command["name"]: command for command in json.load(sys.stdin)["commands"]}
dtype = next(option for option in commands["plan"]["options"] if "--dtype" in option["names"])
assert dtype["group"] == "Work" and dtype["choices"] == ["fp32", "tf32", "bf16", "fp16", "fp8"] and dtype["takes_list"], dtype
assert dtype["value"] == "NAME" and dtype["help"].endswith("[fp32; of a config.json bf16]"), dtype
assert "simulate" not in commands and "bench" in commands
' || fail "the commands as JSON"

# Bad input.
refused() { # WORDS ARGUMENT...
  local words="$1" status=0 message
  shift
  message="$("$program" completion "$@" 2>&1)" || status=$?
  [[ $status == 2 && "$message" == *"$words"* ]] || fail "expected exit code 2 and '$words', got $status: $message"
}
refused "no shell is given: ridgepoint completion bash, zsh, fish or json"
refused "no script for the shell 'fich'; did you mean 'fish'?" fich
refused "no script for the shell 'powershell'; available: bash, zsh, fish, json" powershell
echo "ok"
