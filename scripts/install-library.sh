#!/bin/bash
# install-library.sh TARGET [PREFIX]: puts the client library for C, its header and its pkg-config file, and the library for
# LD_PRELOAD if it was built, in place, below $DESTDIR if that is set. TARGET is where cargo built it; PREFIX is /usr/local if
# it is not said. Libraries go to $LIBDIR below it (lib).
set -euo pipefail
target=$1
prefix=${2:-/usr/local}
cd "$(dirname "$0")/.."
crate=crates/processes/capi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# The number in the library's own name (build.rs), by which programs find it.
soname=libpandofs.so.0
lib=$prefix/${LIBDIR:-lib}
root=${DESTDIR:-}

install -D -m 644 "$crate/include/pandofs.h" "$root$prefix/include/pandofs.h"
install -D -m 755 "$target/libpandofs.so" "$root$lib/libpandofs.so.$version"
ln -sf "libpandofs.so.$version" "$root$lib/$soname"
ln -sf "$soname" "$root$lib/libpandofs.so"
install -D -m 644 "$target/libpandofs.a" "$root$lib/libpandofs.a"
if [[ -f $target/libpandofs_preload.so ]]; then
    install -D -m 755 "$target/libpandofs_preload.so" "$root$lib/libpandofs-preload.so"
fi
install -d "$root$lib/pkgconfig"
sed -e "s|@PREFIX@|$prefix|" -e "s|@LIBDIR@|\${prefix}/${LIBDIR:-lib}|" -e "s|@VERSION@|$version|" "$crate/pandofs.pc.in" \
    >"$root$lib/pkgconfig/pandofs.pc"
chmod 644 "$root$lib/pkgconfig/pandofs.pc"
# The dynamic loader goes by a cache of what is where. (Packages do this themselves.)
if [[ -z $root && $(id -u) -eq 0 ]] && command -v ldconfig >/dev/null; then
    ldconfig
fi
