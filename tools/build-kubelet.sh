#!/usr/bin/env bash
# Builds the kubelet that `make real-node` runs, from the module and the version of
# the other control plane binaries, once; a few minutes on two cores. `make
# controlplane` does not need it. Progress goes to stderr; the binary's path is the
# only line on stdout.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/binaries.sh"

kubernetes=$(sed -n 's/^[[:space:]]*k8s.io\/kubernetes \(v[^ ]*\).*/\1/p' "$here/controlplane/go.mod")
out=$(folder "kubelet-$kubernetes" controlplane)
minor=${kubernetes#v1.}
version="-X k8s.io/component-base/version.gitVersion=$kubernetes -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${minor%%.*}"

alone "the kubelet"
if [ ! -x "$out/kubelet" ]; then
	# The flags of the other binaries: most packages are compiled already.
	compile kubelet controlplane k8s.io/kubernetes/cmd/kubelet -ldflags "-s -w $version"
fi
printf '%s\n' "$out/kubelet"
