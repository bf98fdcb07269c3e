#!/usr/bin/env bash
# Builds Helm from its Go module, once; some minutes on two cores. Progress goes to
# stderr; the program's path is the only line on stdout.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/binaries.sh"

version=$(sed -n 's|^[[:space:]]*helm.sh/helm/v4 \(v[^ ]*\).*|\1|p' "$here/helm/go.mod")
out=$(folder "helm-$version" helm)
alone Helm
if [ ! -x "$out/helm" ]; then
	CGO_ENABLED=0 compile helm helm helm.sh/helm/v4/cmd/helm -ldflags "-s -w -X helm.sh/helm/v4/internal/version.version=$version"
fi
printf '%s\n' "$out/helm"
