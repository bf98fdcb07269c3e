#!/usr/bin/env bash
# Adds to bin/site, which `make site` built, the pages of each release in site/versions.json:
# built from its tag, with the tools and the theme of that tag, in a folder with its name.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

mapfile -t versions < <(grep -o '"v[^"]*"' site/versions.json | tr -d '"')
for version in "${versions[@]}"; do
	source=$(mktemp -d)/source
	trap 'git worktree remove --force "$source"' EXIT
	git worktree add --detach "$source" "refs/tags/$version"
	(cd "$source/site" && npm ci && SITE_VERSION=$version npm run build)
	rm -rf "bin/site/$version"
	cp -r "$source/bin/site" "bin/site/$version"
	git worktree remove --force "$source"
	trap - EXIT
done
printf 'the site has main and %d releases\n' "${#versions[@]}"
