#!/usr/bin/env bash
# usage: man_pages.sh PROGRAM
# The manual pages: there is one for each command, they say what the help says, and groff has no complaint.
set -euo pipefail
program="$1"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
fail() {
  printf 'FAILED: %s\n' "$1" >&2
  exit 1
}

"$program" man "$work/man1"
mapfile -t commands < <("$program" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]\+\) .*/\1/p')
((${#commands[@]} > 9)) || fail "the help lists ${#commands[@]} commands"
for command in "${commands[@]}"; do
  [[ -s "$work/man1/ridgepoint-$command.1" ]] || fail "ridgepoint-$command.1 is missing"
  grep -qxF "\\fB$command\\fR" "$work/man1/ridgepoint.1" || fail "ridgepoint.1 does not name $command"
done
page="$work/man1/ridgepoint-bench.1"
grep -qF '\fB\-\-dtype\fR \fINAME\fR' "$page" || fail "the page of bench lacks --dtype"
grep -qF 'ridgepoint bench \-\-model tiny,small' "$page" || fail "the page of bench lacks its examples"
if grep -q 'first.*call.*row' "$page"; then fail "an option that the help hides is in the manual"; fi

# Nothing in a text is taken for a request, or for a typographic sign.
if grep -hE "^['.]" "$work"/man1/* | grep -vE '^\.(TH|SH|SS|TP|BR|br|nf|fi|nh|ad)( |$)'; then fail "a line begins with a request"; fi
if grep -hE '(^|[^\\])-' "$work"/man1/*; then fail "a hyphen is not escaped"; fi
grep -qF "\\(aqlayers.*.attn\\(aq" "$work/man1/ridgepoint-profile.1" || fail "an apostrophe is not escaped"

if command -v groff >/dev/null; then
  for page in "$work"/man1/*; do
    messages="$(groff -man -Tutf8 -ww -rLL=100n "$page" 2>&1 >"$work/text")"
    [[ -z "$messages" ]] || fail "groff on $(basename "$page"): $messages"
  done
  groff -man -Tascii -P-c -rLL=100n "$work/man1/ridgepoint-plan.1" | grep -F 'card "rtx 4090"' >/dev/null ||
    fail "quotation marks of a command line are not plain"
  groff -man -Tascii -P-c -rLL=80n "$work/man1/ridgepoint-study.1" >"$work/text"
  for part in memory_forward_loop attention_limit compiled_attention compiled_model; do
    grep -qw "$part" "$work/text" || fail "a line break divides $part"
  done
fi

# Bad input.
status=0
message="$("$program" man 2>&1)" || status=$?
[[ $status == 2 && "$message" == *"no folder is given: ridgepoint man FOLDER"* ]] || fail "man without a folder: $message"
touch "$work/file"
status=0
message="$("$program" man "$work/file/man1" 2>&1)" || status=$?
[[ $status == 1 && "$message" == *"cannot make the folder '$work/file/man1'"* ]] || fail "man in a file: $message"
echo "ok"
