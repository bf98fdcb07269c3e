#!/usr/bin/env bash
# Writes every generated file from its source: deep copies, apply
# configurations and CRDs from api/, the manager's role from the RBAC markers beside the
# code that needs the permission, the references in docs/, and dist/, charts/ and bundle/
# from config/. `make verify` runs it and checks with git that nothing changed. IMG is the
# manager's image in the bundle; the default has VERSION as its tag.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

generate() { go tool -modfile=tools/dev/go.mod controller-gen "$@"; }

# The types first: the other packages compile against them.
rm -rf api/v1alpha1/applyconfiguration
generate object applyconfiguration crd \
	paths=./api/... output:crd:artifacts:config=config/crd/bases

# controller-gen ignores an RBAC marker in the comment of a declaration: a marker needs a
# comment of its own.
git ls-files -z -co --exclude-standard '*.go' | xargs -0 awk '
	FNR == 1 { marker = 0 }
	/^[[:space:]]*\/\/ \+kubebuilder:rbac:/ { marker = 1; next }
	/^[[:space:]]*\/\// { next }
	marker && NF { printf "%s:%d: put a blank line after the RBAC marker above\n", FILENAME, FNR; bad = 1 }
	{ marker = 0 }
	END { exit bad }' >&2
generate rbac:roleName=manager-role paths=./... output:rbac:artifacts:config=config/rbac

# The references: metrics and flags from the code that defines them, the resources from
# their types, and the generated part of each page of a plugin.
go run ./tools/metrics
go run ./tools/flags
go run ./tools/plugins
go tool -modfile=tools/apidocs/go.mod crd-ref-docs --log-level=ERROR \
	--source-path=api/v1alpha1 --config=tools/apidocs/config.yaml \
	--renderer=markdown --templates-dir=tools/apidocs/templates --output-path=docs/reference/api.md

# The same as `kubectl apply -k config/default`, in one file.
mkdir -p dist
{
	printf '%s\n' '# The whole operator: kubectl apply --server-side -f install.yaml' \
		'# Made from config/default by `make generate`; change that instead.'
	go tool -modfile=tools/dev/go.mod kustomize build config/default
} >dist/install.yaml

# The same for Helm, with a value for each component.
go run ./tools/chart

# The same for the Operator Lifecycle Manager.
(cd tools/bundle && go run . --image="${IMG:-}")
