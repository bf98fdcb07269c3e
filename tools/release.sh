#!/usr/bin/env bash
# Builds the files of a release with the tools of tools/release, which are built once into
# the user's cache folder:
#
#   tools/release.sh check            checks the release configuration and the workflow files
#   tools/release.sh snapshot         everything but signatures, into bin/release; the image as archives
#   tools/release.sh version TAG      checks that TAG is the version in VERSION and CHANGELOG.md
#   tools/release.sh bundle IMAGE     the bundle of that manager, into bin/bundle
#   tools/release.sh catalog BUNDLE   a catalog of that bundle image and bin/bundle, into bin/catalog
#   tools/release.sh publish IMAGE BUNDLE   a draft of a release, signed; in the workflow only
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export GOFLAGS=-buildvcs=false GOWORK=off

key=$(cat tools/release/go.{mod,sum} | sha256sum | cut -c1-10)
tools=${XDG_CACHE_HOME:-$HOME/.cache}/berth/release/$key
export PATH=$tools:$PATH

# have NAME PACKAGE builds a tool unless it exists.
have() {
	[ -x "$tools/$1" ] && return
	mkdir -p "$tools"
	printf '%s building %s (once)\n' "$(date +%H:%M:%S)" "$1" >&2
	(cd tools/release && go build -ldflags '-s -w' -o "$tools/.$1.part" "$2")
	mv "$tools/.$1.part" "$tools/$1"
}

# pinned IMAGE FILE writes the manifest on stdin with that image.
pinned() {
	sed "s|image: berth:latest\$|image: $1|" >"$2"
	grep -q "image: $1\$" "$2" || { echo "tools/release.sh: the manifest for $2 has no image berth:latest" >&2; exit 1; }
}

# packages IMAGE writes everything that installs the operator with that image, NAME:TAG or
# NAME:TAG@sha256:…: two manifests, the chart, and the bundle, whose relatedImages contain
# the image if it has a digest.
packages() {
	local image=$1 version name tag digest=
	version=$(cat VERSION)
	mkdir -p bin
	rm -f bin/install*.yaml bin/berth-[0-9]*.tgz bin/berth-bundle-*.tar.gz bin/berth-catalog-*.yaml
	pinned "$image" bin/install.yaml <dist/install.yaml
	go tool -modfile=tools/dev/go.mod kustomize build config/production | pinned "$image" bin/install-production.yaml

	case $image in *@*) digest=${image#*@} ;; esac
	name=${image%%@*} tag=${name##*:} name=${name%:*}
	rm -rf bin/chart && mkdir -p bin/chart && cp -r charts/berth bin/chart
	sed -i.orig -e "s|^  repository: berth\$|  repository: $name|" -e "s|^  tag: latest\$|  tag: $tag|" \
		-e "s|^  digest: \"\"\$|  digest: \"$digest\"|" bin/chart/berth/values.yaml
	rm bin/chart/berth/values.yaml.orig
	helm=$(tools/build-helm.sh)
	"$helm" template berth bin/chart/berth | grep -q "image: $image\$" || { echo "tools/release.sh: the chart does not have the image $image" >&2; exit 1; }
	"$helm" package bin/chart/berth --destination bin >&2
	[ -f "bin/berth-$version.tgz" ] || { echo "tools/release.sh: the chart's version is not that of VERSION: run make generate" >&2; exit 1; }

	bundle "$image"
	tar -C bin/bundle -czf "bin/berth-bundle-$version.tar.gz" bundle bundle.Dockerfile
}

# images writes an archive of the image that the manifests of a snapshot name, for each
# platform, to be loaded into a container runtime: the manager that GoReleaser built, on files
# like those of the base image. The workflow builds the image of a release by the Dockerfile.
images() {
	local arch version
	version=v$(cat VERSION)-snapshot
	for arch in amd64 arm64; do
		(cd tools/images && go run . --root="$root" --out="$root/bin/release/images" --only=manager --name=berth:snapshot \
			--arch="$arch" --manager="$(echo "$root"/bin/release/manager_linux_"$arch"*/manager)") >&2
		mv bin/release/images/manager.tar "bin/release/berth-manager-image_${version}_linux_$arch.tar"
	done
	rmdir bin/release/images
}

# bundle IMAGE writes the bundle of the manager with that image into bin/bundle.
bundle() {
	rm -rf bin/bundle && mkdir -p bin/bundle
	(cd tools/bundle && go run . --image="$1" --out=../../bin/bundle)
}

# catalog BUNDLE writes a catalog into bin/catalog, and the files to build its image. It has
# only the bundle in bin/bundle, whose image is BUNDLE, NAME:TAG@sha256:…; the bundle
# replaces every older version.
catalog() {
	local image=$1 version channel opm base
	case $image in
	*@sha256:*) ;;
	*) echo "tools/release.sh: the image of the bundle is $image: it must have a digest, NAME:TAG@sha256:…" >&2; exit 1 ;;
	esac
	[ -d bin/bundle/bundle ] || { echo "tools/release.sh: bin/bundle not found: run tools/release.sh bundle IMAGE first" >&2; exit 1; }
	version=$(cat VERSION)
	channel=$(sed -n 's/.*bundle\.channel\.default\.v1: //p' bin/bundle/bundle/metadata/annotations.yaml)
	opm=$(tools/build-olm.sh opm)/opm
	base=quay.io/operator-framework/opm:$(sed -n 's|^[[:space:]]*github.com/operator-framework/operator-registry \(v[^ ]*\).*|\1|p' tools/olm/go.mod)
	rm -rf bin/catalog && mkdir -p bin/catalog/berth
	{
		printf '%s\n' --- 'schema: olm.package' 'name: berth' "defaultChannel: $channel" \
			--- 'schema: olm.channel' 'package: berth' "name: $channel" 'entries:' \
			"- name: berth.v$version" "  skipRange: <$version"
		"$opm" render bin/bundle/bundle --alpha-image-ref-template="$image" --output=yaml
	} >bin/catalog/berth/catalog.yaml
	"$opm" validate bin/catalog/berth
	(cd bin/catalog && "$opm" generate dockerfile berth --base-image="$base" --builder-image="$base")
	# The cache is the same on each platform, and is built on the build platform.
	sed -i.orig 's|^FROM \(.* as builder\)$|FROM --platform=$BUILDPLATFORM \1|' bin/catalog/berth.Dockerfile
	rm bin/catalog/berth.Dockerfile.orig
	cp bin/catalog/berth/catalog.yaml "bin/berth-catalog-$version.yaml"
}

case ${1:-} in
check)
	have goreleaser github.com/goreleaser/goreleaser/v2
	have actionlint github.com/rhysd/actionlint/cmd/actionlint
	goreleaser check
	actionlint
	;;
snapshot)
	have goreleaser github.com/goreleaser/goreleaser/v2
	have cyclonedx-gomod github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
	have validate-krew-manifest sigs.k8s.io/krew/cmd/validate-krew-manifest
	have krew sigs.k8s.io/krew/cmd/krew
	packages berth:snapshot
	catalog berth-bundle:snapshot@sha256:$(printf '%064d' 0)
	VERSION=$(cat VERSION) goreleaser release --snapshot --clean --skip=sign,publish,announce
	# In one folder, as a person downloads them.
	cp bin/install.yaml bin/install-production.yaml bin/berth-[0-9]*.tgz bin/berth-bundle-*.tar.gz bin/berth-catalog-*.yaml bin/release
	# krew installs from URLs that do not exist yet: the test installs from the archives.
	validate-krew-manifest -manifest bin/release/krew/berth.yaml -skip-install
	images
	go test -count=1 ./test/install/release -args -release "$root/bin/release" -krew "$tools/krew"
	;;
version)
	version=v$(cat VERSION)
	[ "${2:-}" = "$version" ] || { echo "tools/release.sh: the tag is ${2:-missing}, VERSION says $version" >&2; exit 1; }
	grep -q "^## \[${version#v}\] - " CHANGELOG.md || { echo "tools/release.sh: CHANGELOG.md has no section for ${version#v} with a date" >&2; exit 1; }
	;;
bundle) bundle "${2:?the image of the manager, by digest}" ;;
catalog) catalog "${2:?the image of the bundle, by digest}" ;;
publish)
	have goreleaser github.com/goreleaser/goreleaser/v2
	have cyclonedx-gomod github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
	packages "${2:?the image, by digest}"
	catalog "${3:?the image of the bundle, by digest}"
	goreleaser release --clean
	;;
*)
	sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
