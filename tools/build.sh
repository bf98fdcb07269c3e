#!/usr/bin/env bash
# Builds the programs of `make controlplane`: etcd, kube-apiserver,
# kube-controller-manager, kube-scheduler, kubectl and kwok from Go modules,
# once. Progress goes to stderr; the folder is the only line on stdout. With a
# minor version that tools/older has a module for, such as 1.35, kube-apiserver has that
# version; the other programs are the same.
#
#   BERTH_TOOLS         the folder of the binaries; default: berth/tools in the
#                       user's cache folder, in a folder named by version
#   KUBEBUILDER_ASSETS  if set, its etcd, kube-apiserver and kubectl are used
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/binaries.sh"

modules=(controlplane kwok) api=controlplane newest=
if [ $# -gt 0 ]; then
	api=older/$1
	if [ ! -f "$here/$api/go.mod" ]; then
		echo "tools/build.sh: no module for Kubernetes $1, only for: $(ls "$here/older" | xargs)" >&2
		exit 2
	fi
	modules+=("$api")
	newest=$("$here/build.sh")
fi
kubernetes=$(sed -n 's/^[[:space:]]*k8s.io\/kubernetes \(v[^ ]*\).*/\1/p' "$here/$api/go.mod")
out=$(folder "$kubernetes" "${modules[@]}")
if [ -n "$newest" ]; then
	out=$(dirname "$newest")/${out##*/}
elif [ -n "${BERTH_TOOLS:-}" ]; then
	out=$BERTH_TOOLS
fi

minor=${kubernetes#v1.}
version="-X k8s.io/component-base/version.gitVersion=$kubernetes -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${minor%%.*}"

alone "the control plane"

# build NAME MODULE PACKAGE builds one binary unless it exists.
build() {
	local name=$1 module=$2 package=$3
	[ -x "$out/$name" ] && return
	if [ -n "$newest" ] && [ "$module" != "$api" ]; then
		ln -sf "$newest/$name" "$out/$name"
		return
	fi
	if [ -z "$newest" ] && [ -n "${KUBEBUILDER_ASSETS:-}" ] && [ -x "$KUBEBUILDER_ASSETS/$name" ]; then
		ln -sf "$KUBEBUILDER_ASSETS/$name" "$out/$name"
		return
	fi
	# The flags of every other build here: the oracle shares the build cache.
	compile "$name" "$module" "$package" -ldflags "-s -w $version"
}

build etcd controlplane go.etcd.io/etcd/server/v3
build kube-apiserver "$api" k8s.io/kubernetes/cmd/kube-apiserver
build kubectl controlplane k8s.io/kubernetes/cmd/kubectl
build kube-controller-manager controlplane k8s.io/kubernetes/cmd/kube-controller-manager
build kwok kwok sigs.k8s.io/kwok/cmd/kwok
build kube-scheduler controlplane k8s.io/kubernetes/cmd/kube-scheduler

# The stage files of KWOK, which define the life cycle of its nodes and pods.
if [ ! -d "$out/stages" ]; then
	kwok=$(source_of kwok sigs.k8s.io/kwok)
	rm -rf "$out/.stages.part" && mkdir "$out/.stages.part"
	for f in node/fast/node-initialize node/heartbeat/node-heartbeat pod/fast/pod-ready pod/fast/pod-complete pod/fast/pod-delete; do
		cat "$kwok/kustomize/stage/$f.yaml" >"$out/.stages.part/${f##*/}.yaml"
	done
	mv "$out/.stages.part" "$out/stages"
fi
printf '%s\n' "$out"
