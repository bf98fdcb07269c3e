#!/usr/bin/env bash
# Builds the container runtime of `make real-node` from its Go module, once; a minute on two
# cores. Progress goes to stderr; the folder of its programs is the only line on stdout.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/binaries.sh"

module=github.com/containerd/containerd/v2
version=$(sed -n "s|^[[:space:]]*$module \(v[^ ]*\).*|\1|p" "$here/containerd/go.mod")
out=$(folder "containerd-$version" containerd)
alone containerd
for name in containerd containerd-shim-runc-v2 ctr; do
	[ -x "$out/$name" ] && continue
	# The suite uses one snapshotter, overlayfs, and the others need more than Go.
	CGO_ENABLED=0 compile "$name" containerd "$module/cmd/$name" -tags "no_btrfs no_devmapper no_zfs" \
		-ldflags "-s -w -X $module/version.Version=$version"
done
printf '%s\n' "$out"
