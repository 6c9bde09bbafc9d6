#!/usr/bin/env bash
# usage: installed.sh FOLDER
# As root, in a system that may be thrown away: installs the Debian packages of the folder with apt and runs the program,
# the Python module and the notebook of examples/, outside of the checkout.
set -euo pipefail
source_dir="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
folder="$(cd "$1" && pwd)"
fail() {
  printf 'FAILED: %s\n' "$1" >&2
  exit 1
}

apt-get update >/dev/null
DEBIAN_FRONTEND=noninteractive apt-get install --yes "$folder"/*.deb >/dev/null || fail "apt does not install $(ls "$folder")"
cd /
[[ "$(ridgepoint --version)" == ridgepoint* ]] || fail "the program does not run"
ridgepoint plan --model small --card h100 || fail "the program does not plan"
python3 -c '
import ridgepoint
print(ridgepoint.__file__, ridgepoint.plan(model="llama-3.1-8b", card="h100"))
assert ridgepoint.bench(model="tiny", context=32, batch=1, steps=2)[0].status == "ok"' || fail "the module does not work"
RIDGEPOINT_SOURCE="$source_dir" python3 "$source_dir/python/tests/notebook_test.py" || fail "the notebook says something else"
echo "the installed packages work"
