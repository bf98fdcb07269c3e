#!/usr/bin/env bash
# Runs test/install/realnode on a real kubelet on this machine, in namespaces for the network,
# mounts and processes that it creates and removes: `make real-node`. It needs root on
# Debian or a similar system, and installs missing packages.
#
#   FOCUS=REGEXP  runs only the specs whose full name matches, such as FOCUS=static-pod
#   KEEP=1        leaves the cluster running until Ctrl-C, with a line that says how to
#                 run the specs again on it, which takes seconds
#   RELEASE=bin/release  installs what make release-snapshot made, and nothing else of Berth: the
#                 archive of the image, the manifests and the chart; and uses its kubectl plugin
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
cd "$root"
say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
missing() { printf 'real-node: %s\n' "$*" >&2; exit 1; }

[ "$(uname -s)" = Linux ] || missing 'it needs Linux: kubelet, containerd and network namespaces run nowhere else'
[ "$(id -u)" = 0 ] || missing 'it needs root, for containers and network namespaces: sudo --preserve-env=PATH,HOME make real-node'

# Missing programs are installed from Debian; each line is a program and its package.
packages=()
while read -r program package; do
	PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || packages+=("$package")
done <<-'END'
	runc runc
	/usr/lib/cni/bridge containernetworking-plugins
	/usr/lib/cni/host-local containernetworking-plugins
	/usr/lib/cni/portmap containernetworking-plugins
	ip iproute2
	nsenter util-linux
	unshare util-linux
	iptables iptables
END
if [ ${#packages[@]} -gt 0 ]; then
	mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
	command -v apt-get >/dev/null || missing "these packages are missing, and there is no apt-get to install them: ${packages[*]}"
	say "installing ${packages[*]}"
	log=$(mktemp)
	if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}"; } >"$log" 2>&1; then
		tail -20 "$log" >&2
		rm -f "$log"
		missing "apt-get could not install: ${packages[*]}"
	fi
	rm -f "$log"
fi
PATH=$PATH:/usr/sbin:/sbin

say 'building the control plane, the kubelet and containerd, unless they are there'
BERTH_TOOLS=${BERTH_TOOLS:-$(tools/build.sh | tail -1)}
export BERTH_TOOLS
kubelet=$(tools/build-kubelet.sh | tail -1)
containerd=$(tools/build-containerd.sh | tail -1)

# A run has the ID of this process in its name. What a killed run left is removed first.
sweep() {
	local name=$1 dir
	ip netns delete "$name" 2>/dev/null || true
	for dir in /sys/fs/cgroup/"$name" /sys/fs/cgroup/*/"$name"; do
		[ -d "$dir" ] && find "$dir" -depth -type d -exec rmdir {} \; 2>/dev/null
	done
	rm -rf "${TMPDIR:-/tmp}/$name"
	return 0
}
for left in $(ip netns list | awk '/^berth-node-[0-9]+/ {print $1}'); do
	kill -0 "${left##*-}" 2>/dev/null || sweep "$left"
done
name=berth-node-$$
dir=${TMPDIR:-/tmp}/$name
version=v0.0.0-real-node
trap 'sweep "$name"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$dir/images"

say 'building the images'
(cd tools/images && go build -o "$dir/write-images" .)
only=() release=()
if [ -n "${RELEASE:-}" ]; then
	[ -f "$RELEASE/checksums.txt" ] || missing "$RELEASE has no checksums.txt: make release-snapshot makes bin/release"
	RELEASE=$(cd "$RELEASE" && pwd)
	(cd "$RELEASE" && sha256sum --check --quiet checksums.txt) || missing "$RELEASE is not as make release-snapshot left it"
	cp "$RELEASE"/berth-manager-image_*_linux_"$(go env GOARCH)".tar "$dir/images/manager.tar"
	only=(--only=tests)
	release=(-release="$RELEASE" -helm="$(tools/build-helm.sh | tail -1)")
fi
"$dir/write-images" --root="$root" --out="$dir/images" --version="$version" "${only[@]}" | sed 's/^/         /' >&2
say 'building the suite and the driver of its devices'
(cd test/support/devicedriver && CGO_ENABLED=0 go build -ldflags='-s -w' -o "$dir/devicedriver" .)
go test -c -vet=off -ldflags=-w -o "$dir/suite" ./test/install/realnode

ip netns add "$name"
suite=("$dir/suite" -test.timeout=60m -ginkgo.v -dir="$dir/clusters" -kubelet="$kubelet" -containerd="$containerd" -devicedriver="$dir/devicedriver" -images="$dir/images" -version="$version" "${release[@]}")
[ -z "${FOCUS:-}" ] || suite+=("-ginkgo.focus=$FOCUS")
if [ -n "${KEEP:-}" ]; then
	suite+=(-keep -ginkgo.fail-fast)
	cat >&2 <<-END
		The cluster stays until Ctrl-C. To run specs on it again, in another terminal:
		  go test -c -vet=off -o $dir/again ./test/install/realnode
		  cd test/install/realnode && BERTH_TOOLS=$BERTH_TOOLS REAL_NODE_CGROUP=$name nsenter --all --target=\$(pgrep -nf $dir/suite) \\
		    $dir/again -attach=$dir/clusters/default -devicedriver=$dir/devicedriver -images=$dir/images -version=$version ${release[*]} -ginkgo.v -ginkgo.label-filter=default
	END
fi

# Inside the namespaces. Folders that kubelet and containerd use regardless of their
# configuration are covered by empty ones, and /etc by a copy-on-write overlay. The first
# process of the PID namespace waits for the suite; when it exits, the kernel kills all
# processes in the namespace.
inside() {
	mount -t tmpfs tmpfs /run
	mount -t tmpfs tmpfs /var/log
	mount -t tmpfs tmpfs /var/lib
	mkdir -p /run/cover/etc /run/cover/work /run/netns
	mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/cover/etc,workdir=/run/cover/work /etc
	trap : INT TERM # the suite receives them as well and shuts down
	cd test/install/realnode
	"$@" &
	suite=$!
	while kill -0 "$suite" 2>/dev/null; do
		status=0
		wait "$suite" || status=$?
	done
	exit "$status"
}
export -f inside
export REAL_NODE_CGROUP=$name
start=$SECONDS
say 'running the suite'
status=0
nsenter --net=/run/netns/"$name" unshare --mount --propagation=private --pid --fork --kill-child --mount-proc \
	bash -euo pipefail -c 'inside "$@"' real-node "${suite[@]}" || status=$?
say "the suite took $((SECONDS - start)) s and ended with status $status"
exit "$status"
