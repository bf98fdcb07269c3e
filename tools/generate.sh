#!/usr/bin/env bash
# Writes every generated file from its source: deep copies, apply
# configurations and CRDs from api/, the manager's role from the RBAC markers
# that stand beside the code that needs the right. `make verify` runs it and
# asks git whether anything changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

generate() { go tool -modfile=tools/dev/go.mod controller-gen "$@"; }

# The types first: the rest of the house compiles against them.
rm -rf api/v1alpha1/applyconfiguration
generate object applyconfiguration crd \
	paths=./api/... output:crd:artifacts:config=config/crd/bases
generate rbac:roleName=manager-role paths=./... output:rbac:artifacts:config=config/rbac
