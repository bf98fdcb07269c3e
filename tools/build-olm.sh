#!/usr/bin/env bash
# Builds the programs of `make olm-e2e` from Go modules, once: olm and catalog of the
# Operator Lifecycle Manager, and opm. It takes a few minutes on two cores. The folder
# crds/ beside them has the CRDs that they need. With the argument opm, only opm is built.
# Progress goes to stderr; the folder is the only line on stdout.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/binaries.sh"

framework=github.com/operator-framework
pinned() { sed -n "s|^[[:space:]]*$framework/$1 \(v[^ ]*\).*|\1|p" "$here/olm/go.mod"; }

version=$(pinned operator-lifecycle-manager)
out=$(folder "olm-$version" olm)
alone "the lifecycle manager"

# loopback MODULE FILE WHAT INSTEAD: these programs listen on every interface, two of
# them on the same port, and have no flag to change that. They are built from a copy with
# another address. It is an error if there is nothing to replace.
loopback() {
	local to="$out/.src/$1"
	cp -r "$(source_of olm "$framework/$1")" "$to"
	chmod -R u+w "$to"
	if ! grep -qF "$3" "$to/$2"; then
		echo "tools/build-olm.sh: no $3 in $1/$2: update the address that it listens on" >&2
		exit 1
	fi
	sed "s|$3|$4|" "$to/$2" >"$to/$2.new"
	mv "$to/$2.new" "$to/$2"
	(cd "$here/olm" && go mod edit -replace="$framework/$1=$to" "$out/.src/go.mod")
}
sources() {
	[ -n "${sourced:-}" ] && return
	sourced=yes
	rm -rf "$out/.src" && mkdir "$out/.src"
	cp "$here/olm/go.mod" "$here/olm/go.sum" "$out/.src"
	loopback operator-lifecycle-manager pkg/lib/server/server.go 'return ":8080"' 'return "127.0.0.1:0"'
	loopback operator-registry cmd/opm/serve/serve.go 'net.Listen("tcp", ":"+s.port)' 'net.Listen("tcp", "127.0.0.1:"+s.port)'
}

# build NAME PACKAGE VARIABLE VERSION builds one binary unless it exists. With the tags,
# opm reads images in pure Go.
build() {
	[ -x "$out/$1" ] && return
	sources
	CGO_ENABLED=0 compile "$1" olm "$framework/$2" -modfile "$out/.src/go.mod" \
		-tags containers_image_openpgp,exclude_graphdriver_btrfs,json1 -ldflags "-s -w -X $framework/$3=$4"
}
build opm operator-registry/cmd/opm operator-registry/cmd/opm/version.opmVersion "$(pinned operator-registry)"
if [ "${1:-}" = opm ]; then
	printf '%s\n' "$out"
	exit
fi
build olm operator-lifecycle-manager/cmd/olm operator-lifecycle-manager/pkg/version.OLMVersion "$version"
build catalog operator-lifecycle-manager/cmd/catalog operator-lifecycle-manager/pkg/version.OLMVersion "$version"
rm -rf "$out/.src"

if [ ! -d "$out/crds" ]; then
	api=$(source_of olm "$framework/api")
	rm -rf "$out/.crds.part" && mkdir "$out/.crds.part"
	for file in "$api"/crds/*.yaml; do cat "$file" >"$out/.crds.part/${file##*/}"; done
	mv "$out/.crds.part" "$out/crds"
fi
printf '%s\n' "$out"
