#!/usr/bin/env bash
# Lists the folders of this repository's modules, the operator's first. With
# arguments, runs them instead, followed by the packages, in each module that
# has any: tools/modules.sh go vet
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What git ignores is no part of the repository; what is not added yet is.
modules=$(git ls-files --cached --others --exclude-standard -- go.mod '*/go.mod' ':!tools/older' |
	while read -r file; do if [ -f "$file" ]; then dirname "$file"; fi; done | sort -u)

if [ $# -eq 0 ]; then
	printf '%s\n' "$modules"
	exit
fi
for module in $modules; do
	packages=$(cd "$module" && go list ./... 2>/dev/null) || packages=./... # let the command itself say what is wrong
	[ -n "$packages" ] || continue
	printf '== %s ./... in %s\n' "$*" "$module"
	(cd "$module" && "$@" ./...)
done
