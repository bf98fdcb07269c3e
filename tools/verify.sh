#!/usr/bin/env bash
# Checks that generated files, the page of `kubectl berth ui`, the format, go.mod and go.sum are up
# to date, and the import policy. It runs all checks before it fails, and leaves newly generated
# files in place. A check that cannot run is named at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
failed= skipped=
fail() { failed+="verify: $*"$'\n'; }

# tree prints a hash of the whole working tree, also of files that are not added.
index=$(mktemp)
trap 'rm -f "$index"' EXIT
tree() {
	cp "$(git rev-parse --git-path index)" "$index"
	GIT_INDEX_FILE=$index git add --all
	GIT_INDEX_FILE=$index git write-tree
}

echo '== generated files are fresh'
before=$(tree)
tools/generate.sh
after=$(tree)
if [ "$before" != "$after" ]; then
	git --no-pager diff "$before" "$after"
	fail 'generated files were stale: look at what `make generate` changed, and commit it'
fi

echo '== the page of kubectl berth ui is built from its source'
page=cmd/kubectl-berth/ui/web code=0
why=$(tools/npm.sh "$page") || code=$?
if [ $code = 3 ]; then
	skipped="verify: $why: $page/dist was not compared with what $page/src builds"$'\n'
elif [ $code != 0 ] || ! (cd "$page" && npm run --silent build >/dev/null); then
	fail "the page does not build: run \`make ui\`"
elif before=$after after=$(tree) && [ "$before" != "$after" ]; then
	git --no-pager diff --stat "$before" "$after"
	fail "$page/dist was stale: look at what \`make ui\` changed, and commit it"
fi

echo '== code is formatted'
unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
	printf '%s\n' "$unformatted"
	fail 'files are not formatted: run `make fmt`'
fi

for module in $(tools/modules.sh); do
	echo "== module $module is tidy"
	(cd "$module" && go mod tidy -diff) || fail "module $module is not tidy: run \`go mod tidy\` in it"
done

echo '== the import policy holds'
go test ./test/architecture || fail 'the import policy is broken: see test/architecture'

printf '%s' "$skipped" "$failed" >&2
[ -z "$failed" ]
