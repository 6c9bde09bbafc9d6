#!/usr/bin/env bash
# Plans the configurations of a file and compares them with committed plans. Needs no GPU.
#
# usage: check_memory.sh CONFIGURATIONS COMMITTED.jsonl [MORE_MEMORY [SLOWER]]
#
# CONFIGURATIONS has the options of one `ridgepoint plan` a line; empty lines and lines that begin with # are skipped.
# The plans are written to NEW.jsonl beside COMMITTED.jsonl; copy them over it to accept them. Prints a summary in
# Markdown, and appends it to $GITHUB_STEP_SUMMARY where that is set. MORE_MEMORY and SLOWER are shares, as 1% and 3%.
# Exit code: that of `ridgepoint compare` (0; 3 slower; 5 more memory; 1 not comparable), or of a plan that fails (2: its
# options; 4: a row does not fit).
set -euo pipefail

configurations=$1 committed=$2 more_memory=${3:-1%} slower=${4:-}
ridgepoint=${RIDGEPOINT:-ridgepoint}
new=$(dirname "$committed")/NEW.jsonl

tell() { tee -a "${GITHUB_STEP_SUMMARY:-/dev/null}"; }

: >"$new"
while IFS= read -r line || [[ -n "$line" ]]; do
  [[ -n "$line" && "$line" != \#* ]] || continue
  status=0
  # shellcheck disable=SC2086 # the words of a line are options
  plans=$("$ridgepoint" plan $line --format jsonl) || status=$?
  if ((status != 0)); then
    printf '**`ridgepoint plan %s` fails with exit code %d.**\n' "$line" "$status" | tell
    exit "$status"
  fi
  printf '%s\n' "$plans" >>"$new"
done <"$configurations"

status=0
said=$(mktemp)
trap 'rm -f "$said"' EXIT
"$ridgepoint" compare "$committed" "$new" --format markdown --fail-if-more-memory "$more_memory" \
  ${slower:+--fail-if-slower "$slower"} >"$said" 2>"$said.messages" || status=$?
{
  printf '### Memory of the configurations in `%s`\n\n' "$configurations"
  cat "$said"
  sed 's/^ridgepoint: /- /' "$said.messages"
} | tell
rm -f "$said.messages"
exit "$status"
