#!/usr/bin/env bash
# usage: deb.sh BUILD_DIR
# The Debian package: what cpack makes of a built program, opened without being installed.
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
packages=("$work"/*.deb)
[[ ${#packages[@]} == 1 && "$(basename "${packages[0]}")" == ridgepoint_*_*.deb ]] || fail "cpack made ${packages[*]}"
package="${packages[0]}"

field() { dpkg-deb -f "$package" "$1"; }
[[ "$(field Package)" == ridgepoint ]] || fail "the package is called '$(field Package)'"
[[ "$(field Section)" == science ]] || fail "the section is '$(field Section)'"
[[ "$(field Maintainer)" == *"<"*"@"*">" ]] || fail "the maintainer is '$(field Maintainer)'"
for library in libc6 libdnnl libfmt libhwy libstdc++6 libgomp1 zlib1g; do
  [[ " $(field Depends)" == *" $library"* ]] || fail "it does not depend on $library: $(field Depends)"
done
[[ "$(field Description | wc -l)" -gt 3 ]] || fail "the description is one line"

dpkg-deb -c "$package" >"$work/files"
for file in bin/ridgepoint share/man/man1/ridgepoint.1 share/man/man1/ridgepoint-bench.1 \
  share/bash-completion/completions/ridgepoint share/zsh/site-functions/_ridgepoint \
  share/fish/vendor_completions.d/ridgepoint.fish share/doc/ridgepoint/LICENSE; do
  grep -qE "^-rw[-x]r-[-x]r-[-x] root/root .* \./usr/$file$" "$work/files" || fail "/usr/$file is missing, or not root's"
done
if grep -E '\./usr/(lib|include)/' "$work/files"; then fail "headers or libraries are in the package of the program"; fi

# The packed program runs.
dpkg-deb -x "$package" "$work/root"
[[ "$("$work/root/usr/bin/ridgepoint" --version)" == ridgepoint* ]] || fail "the program in it does not run"
echo "ok"
