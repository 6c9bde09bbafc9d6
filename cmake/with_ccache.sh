#!/bin/sh
# usage: with_ccache.sh CCACHE COMPILER...
# The compiler through ccache, set up to keep precompiled headers and what is compiled with them.
export CCACHE_SLOPPINESS=pch_defines,time_macros
# Paths within the checkout count as relative, so that its build folders and other checkouts share what they compile.
CCACHE_BASEDIR="$(cd -P "$(dirname "$0")/.." && pwd)"
export CCACHE_BASEDIR
# An old precompiled header would become part of the new one, which would then differ from that of other build folders.
for word; do
  case "$word" in *.gch) rm -f "$word" ;; esac
done
exec "$@"
