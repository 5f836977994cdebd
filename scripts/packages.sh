#!/bin/bash
# packages.sh [--programs FOLDER] [--version VERSION] [--out FOLDER]: makes the packages, deb and rpm, that packages/nfpm.yaml
# describes, and prints their names. Programs are those of FOLDER, or else built as by `make build`; the version is that of the
# workspace unless it is said; packages go to dist.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
out=dist
while [[ $# -gt 0 ]]; do
    case $1 in
    --programs) programs=$2 ;;
    --version) version=$2 ;;
    --out) out=$2 ;;
    *)
        echo "packages: there is no option '$1' (--programs, --version, --out)" >&2
        exit 2
        ;;
    esac
    shift 2
done
scripts/deps.sh package
# What it says is not what this is asked for.
[[ -n $programs ]] || make --no-print-directory build >&2
programs=$(realpath "${programs:-$(scripts/cargo-target.sh)/release}")
nfpm=$(command -v nfpm || realpath "$(scripts/cargo-target.sh)/programs/nfpm/bin/nfpm")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
export VERSION=$version
ARCH=$(dpkg --print-architecture)
export ARCH
multiarch=$(dpkg-architecture --query DEB_HOST_MULTIARCH)
# Files of one commit have one time, whenever they are built.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

# What has to be there for each program but pandofs-mpi, which is only run where MPI is.
linked=("$programs/pandofs" "$programs/pandofs-walk" "$programs/libpandofs.so")
# The library for programs that know nothing of PandoFS is installed where it was built.
[[ ! -e $programs/libpandofs_preload.so ]] || linked+=("$programs/libpandofs_preload.so")
# What dpkg-shlibdeps wants to find, and does not read.
mkdir "$work/debian"
: >"$work/debian/control"
DEB_DEPENDS=$(cd "$work" && dpkg-shlibdeps -O "${linked[@]/#/-e}" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
export DEB_DEPENDS
# needed LIBRARY VERSIONS: the capability of rpm's for the newest of such versions of it that is asked for.
needed() {
    local newest
    newest=$(objdump -p "${linked[@]}" | grep -oE "\b$2_[0-9.]+" | sort -uV | tail -n 1)
    echo "$1($newest)(64bit)"
}
RPM_LIBC=$(needed libc.so.6 GLIBC)
RPM_LIBGCC=$(needed libgcc_s.so.1 GCC)
RPM_LIBSTDCXX=
# It may be linked statically.
! objdump -p "${linked[@]}" | grep -q 'NEEDED *libstdc++' || RPM_LIBSTDCXX=$(needed libstdc++.so.6 GLIBCXX)
export RPM_LIBC RPM_LIBGCC RPM_LIBSTDCXX

# package FORMAT LIBDIR ZSHDIR
package() {
    export STAGE=$work/$1
    mkdir "$STAGE"
    DESTDIR=$STAGE LIBDIR=$2 ZSHDIR=$3 scripts/install.sh "$programs" /usr
    find "$STAGE/usr/bin" "$STAGE/usr/$2" -type f ! -name '*.pc' -exec strip --strip-debug {} +
    find "$STAGE" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    "$nfpm" package --config packages/nfpm.yaml --packager "$1" --target "$out" >"$work/said" || {
        cat "$work/said" >&2
        exit 1
    }
    sed -n 's/^created package: //p' "$work/said"
}
package deb "lib/$multiarch" share/zsh/vendor-completions
package rpm lib64 share/zsh/site-functions
