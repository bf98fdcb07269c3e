#!/usr/bin/env bash
# Lists the folders of the modules in this repository, the operator's first. With
# arguments, it runs them with the packages in each module that has packages, as in
# tools/modules.sh go vet
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Files that git ignores are not part of the repository; files that are not added yet are.
modules=$(git ls-files --cached --others --exclude-standard -- go.mod '*/go.mod' ':!tools/older' |
	while read -r file; do if [ -f "$file" ]; then dirname "$file"; fi; done | sort -u)

if [ $# -eq 0 ]; then
	printf '%s\n' "$modules"
	exit
fi
for module in $modules; do
	packages=$(cd "$module" && go list ./... 2>/dev/null) || packages=./... # the command reports the error
	[ -n "$packages" ] || continue
	printf '== %s ./... in %s\n' "$*" "$module"
	(cd "$module" && "$@" ./...)
done
