#!/usr/bin/env bash
# usage: deb.sh BUILD_DIR
# The Debian packages: what cpack makes of a built program, opened without being installed.
set -euo pipefail
build_dir="$1"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
fail() {
  printf 'FAILED: %s\n' "$1" >&2
  exit 1
}

# Not compressed: the test reads the package once.
cpack -G DEB --config "$build_dir/CPackConfig.cmake" -B "$work" -D CPACK_DEBIAN_COMPRESSION_TYPE=none >"$work/log" 2>&1 ||
  { cat "$work/log" >&2 && fail "cpack failed"; }
programs=("$work"/ridgepoint_*_*.deb)
[[ ${#programs[@]} == 1 && -f "${programs[0]}" ]] || fail "cpack made $(ls "$work")"
package="${programs[0]}"
if [[ -f "$build_dir/libridgepoint_mpi.so" ]]; then
  ranks=("$work"/ridgepoint-mpi_*_*.deb)
  [[ " $(dpkg-deb -f "${ranks[0]}" Depends)" == *"mpi"* ]] || fail "ridgepoint-mpi does not depend on MPI"
  dpkg-deb -c "${ranks[0]}" | grep '/usr/lib.*/ridgepoint/libridgepoint_mpi.so$' >/dev/null || fail "ridgepoint-mpi has no library"
fi

if [[ -d "$build_dir/python/ridgepoint" ]]; then
  modules=("$work"/python3-ridgepoint_*_*.deb)
  [[ " $(dpkg-deb -f "${modules[0]}" Depends)" == *" python3 (>= 3."*" python3 (<< 3."* ]] ||
    fail "python3-ridgepoint is for any Python: $(dpkg-deb -f "${modules[0]}" Depends)"
  dpkg-deb -x "${modules[0]}" "$work/module"
  (cd "$work" && PYTHONPATH="$work/module/usr/lib/python3/dist-packages" PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -c '
import pathlib, ridgepoint
folder = pathlib.Path(ridgepoint.__file__).parent
assert str(folder).endswith("/module/usr/lib/python3/dist-packages/ridgepoint"), folder
assert ridgepoint.plan(model="tiny", card="h100").fits
assert {"__init__.pyi", "_core.pyi", "py.typed"} <= {path.name for path in folder.iterdir()}') ||
    fail "the packed Python module does not work"
fi

field() { dpkg-deb -f "$package" "$1"; }
[[ "$(field Package)" == ridgepoint ]] || fail "the package is called '$(field Package)'"
[[ "$(field Section)" == science ]] || fail "the section is '$(field Section)'"
[[ "$(field Maintainer)" == *"<"*"@"*">" ]] || fail "the maintainer is '$(field Maintainer)'"
for library in libc6 libdnnl libfmt libhwy libstdc++6 libgomp1 zlib1g libpcre2-8-0 libutf8proc; do
  [[ " $(field Depends)" == *" $library"* ]] || fail "it does not depend on $library: $(field Depends)"
done
[[ "$(field Description | wc -l)" -gt 3 ]] || fail "the description is one line"

dpkg-deb -c "$package" >"$work/files"
for file in bin/ridgepoint share/man/man1/ridgepoint.1.gz share/man/man1/ridgepoint-bench.1.gz \
  share/bash-completion/completions/ridgepoint share/zsh/vendor-completions/_ridgepoint \
  share/fish/vendor_completions.d/ridgepoint.fish share/doc/ridgepoint/LICENSE \
  share/doc/ridgepoint/docs/commands/study.md; do
  grep -qE "^-rw[-x]r-[-x]r-[-x] root/root .* \./usr/$file$" "$work/files" || fail "/usr/$file is missing, or not root's"
done
if grep -E '\./usr/(lib|include)/' "$work/files"; then fail "headers or libraries are in the package of the program"; fi

# Debian's zsh does not look into site-functions below /usr.
if grep -F site-functions "$work/files"; then fail "zsh does not find its completion"; fi

# The packed program runs, and its manual unpacks.
dpkg-deb -x "$package" "$work/root"
zcat "$work/root/usr/share/man/man1/ridgepoint.1.gz" | grep '^\.TH "RIDGEPOINT"' >/dev/null || fail "the manual is not whole"
[[ "$("$work/root/usr/bin/ridgepoint" --version)" == ridgepoint* ]] || fail "the program in it does not run"
echo "ok"
