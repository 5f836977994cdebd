#!/bin/bash
# install.sh TARGET [PREFIX]: puts programs, the library for C, manual pages and completions in place, below $DESTDIR if that
# is set. TARGET is where cargo built them; PREFIX is /usr/local if it is not said. Below it libraries go to $LIBDIR (lib),
# completions of zsh to $ZSHDIR (share/zsh/site-functions).
set -euo pipefail
target=$1
prefix=${2:-/usr/local}
root=${DESTDIR:-}$prefix
zsh=$root/${ZSHDIR:-share/zsh/site-functions}
cd "$(dirname "$0")/.."

manual=$(mktemp -d)
trap 'rm -rf "$manual"' EXIT
for program in pandofs pandofs-walk pandofs-mpi; do
    install -D -m 755 "$target/$program" "$root/bin/$program"
    "$target/$program" manual "$manual"
    install -D -m 644 "$manual/bash/$program" "$root/share/bash-completion/completions/$program"
    install -D -m 644 "$manual/zsh/_$program" "$zsh/_$program"
    install -D -m 644 "$manual/fish/$program.fish" "$root/share/fish/vendor_completions.d/$program.fish"
done
# What mount(8) looks for has its options in the page of `pandofs mount`.
mkdir "$manual/man8"
echo '.so man1/pandofs-mount.1' >"$manual/man8/mount.fuse.pandofs.8"
gzip -9n "$manual"/man*/*
for section in man1 man8; do
    install -d "$root/share/man/$section"
    install -m 644 "$manual/$section"/* "$root/share/man/$section"
done
scripts/install-library.sh "$target" "$prefix"
