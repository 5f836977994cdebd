#!/bin/bash
# image.sh [--deb FILE] [--out FOLDER]: makes a container image, an OCI layout in a tar file that podman, docker and skopeo load,
# and prints its name. It is a bare Debian, that of this machine, with the deb in it, which is made if none is given. It goes
# to dist. No container engine is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
deb=
out=dist
while [[ $# -gt 0 ]]; do
    case $1 in
    --deb) deb=$2 ;;
    --out) out=$2 ;;
    *)
        echo "image: there is no option '$1' (--deb, --out)" >&2
        exit 2
        ;;
    esac
    shift 2
done
scripts/deps.sh image
if [[ -z $deb ]]; then
    deb=$(scripts/packages.sh --out "$out" | grep '\.deb$')
fi
version=$(dpkg-deb --field "$deb" Version)
architecture=$(dpkg-deb --field "$deb" Architecture)
suite=$(. /etc/os-release && echo "${VERSION_CODENAME-}")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
layout=$work/layout
blobs=$layout/blobs/sha256
mkdir -p "$blobs" "$out"

# Nobody reads manuals there.
mmdebstrap --variant=minbase --include=fuse3 --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --customize-hook="copy-in '$deb' /tmp" \
    --customize-hook="chroot \"\$1\" apt-get install --yes --no-install-recommends '/tmp/$(basename "$deb")'" \
    --customize-hook="rm \"\$1/tmp/$(basename "$deb")\"" "$suite" "$work/root.tar" >"$work/said" 2>&1 || {
    tail -n 20 "$work/said" >&2
    exit 1
}

digest() {
    sha256sum "$1" | cut -d ' ' -f 1
}
# blob FILE TYPE: moves the file among the blobs, and prints what others say of it.
blob() {
    local name size
    name=$(digest "$1")
    size=$(stat --format %s "$1")
    mv "$1" "$blobs/$name"
    jq --null-input --compact-output --arg digest "sha256:$name" --arg type "$2" --argjson size "$size" \
        '{mediaType: $type, digest: $digest, size: $size}'
}
types=application/vnd.oci.image
layer_digest=$(digest "$work/root.tar")
gzip -n "$work/root.tar"
layer=$(blob "$work/root.tar.gz" $types.layer.v1.tar+gzip)
jq --null-input --arg architecture "$architecture" --arg layer "sha256:$layer_digest" --arg version "$version" '{
    architecture: $architecture, os: "linux",
    config: {
        Entrypoint: ["/usr/bin/pandofs"], Cmd: ["--help"], Volumes: {"/var/lib/pandofs": {}},
        Env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        Labels: {
            "org.opencontainers.image.title": "PandoFS", "org.opencontainers.image.version": $version,
            "org.opencontainers.image.licenses": "Apache-2.0"
        }
    },
    rootfs: {type: "layers", diff_ids: [$layer]}
}' >"$work/config"
config=$(blob "$work/config" $types.config.v1+json)
jq --null-input --argjson config "$config" --argjson layer "$layer" --arg type $types.manifest.v1+json \
    '{schemaVersion: 2, mediaType: $type, config: $config, layers: [$layer]}' >"$work/manifest"
manifest=$(blob "$work/manifest" $types.manifest.v1+json)
# The first name is what podman and skopeo look at, the second one docker.
jq --null-input --argjson manifest "$manifest" --arg version "$version" '{
    schemaVersion: 2, manifests: [$manifest + {annotations: {
        "org.opencontainers.image.ref.name": $version, "io.containerd.image.name": "pandofs:\($version)"
    }}]
}' >"$layout/index.json"
echo '{"imageLayoutVersion": "1.0.0"}' >"$layout/oci-layout"
image=$out/pandofs-$version-$architecture-oci.tar
tar -C "$layout" --owner=0 --group=0 --sort=name -cf "$image" oci-layout index.json blobs
echo "$image"
