#!/usr/bin/env bash
# Runs the tests that need an API server against older API servers:
# tools/older.sh 1.35 1.36
#
# The suites are built once for all versions. Each of them runs, even if one before it
# failed; the exit status tells whether any failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
suites=(./test/install/coldstart ./test/install ./demo ./test/perf/explanations ./test/integration ./test/integration/scenarios/...)

say() { printf '%s older: %s\n' "$(date +%H:%M:%S)" "$*"; }

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
say 'building the suites, which takes a minute or two'
go test -c -vet=off -ldflags=-w -o "$bin/" "${suites[@]}"
# One folder a line, with the flag of suites that can report skipped specs.
folders=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{range .TestImports}}{{if eq . "github.com/onsi/ginkgo/v2"}} -ginkgo.junit-report={{end}}{{end}}{{end}}' "${suites[@]}")
# A kube-apiserver there would be used instead of the older one.
unset KUBEBUILDER_ASSETS

# run MINOR runs every suite against the API server of that version.
run() {
	local tools folder flag suite start status=0
	tools=$(tools/build.sh "$1") || return 1
	say "$1 is $("$tools/kube-apiserver" --version)"
	while read -r folder flag; do
		suite=${folder#"$root/"}
		say "$1 $suite"
		start=$SECONDS
		rm -f "$bin/report.xml"
		if (cd "$folder" && BERTH_TOOLS=$tools "$bin/${folder##*/}.test" -test.timeout=30m ${flag:+"$flag$bin/report.xml"} </dev/null); then
			say "$1 $suite passed in $((SECONDS - start)) s"
		else
			say "$1 $suite FAILED after $((SECONDS - start)) s"
			status=1
		fi
		if [ -f "$bin/report.xml" ]; then
			sed -n 's/.*<skipped message="skipped - \([^"]*\)".*/\1/p' "$bin/report.xml" | sort | uniq -c |
				while read -r count why; do say "$1 $suite skipped $count: $why"; done
		fi
	done <<<"$folders"
	return $status
}

failed=
for minor in "$@"; do
	start=$SECONDS
	# In a condition, errexit does not apply to functions: run reports failures itself.
	if run "$minor"; then
		say "$minor passed in $((SECONDS - start)) s"
	else
		say "$minor FAILED after $((SECONDS - start)) s"
		failed+=" $minor"
	fi
done
if [ -n "$failed" ]; then
	say "FAILED:$failed" >&2
	exit 1
fi
