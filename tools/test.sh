#!/usr/bin/env bash
# Runs the tests of every module: tools/test.sh unit integration page long
#
# A package whose code or tests depend on test/support/controlplane is an integration test; the
# others are unit tests. Those named below are long ones.
#
# With a C compiler the race detector is used for the unit tests of packages that start
# goroutines: it sees nothing in the others, and makes all tests several times slower. Tests
# that have fewer cases with -short have these there, and all without it. RACE=all uses the
# detector for the tests on a control plane as well, RACE=off for none.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
controlplane=github.com/berthdev/berth/test/support/controlplane
# Long tests wait for minutes of real time, or run commands that measure. They are not part
# of the suites that every change has to pass.
long='/test/(observability/alerts|install/(helm|olm)|perf(/explanations)?|handover/(restarts|soak))$'
# Tests with a target of their own, since they need root and more than Go.
own='/test/install/realnode$'
# What a package has whose code or tests start goroutines.
concurrent='^[[:space:]]*go (func|[A-Za-z_.]+\()|\.Go\(|errgroup|synctest|httptest|wait\.Group|t\.Parallel'
# Packages whose tests gain nothing from the detector all the same. The oracle is one
# goroutine, and a thousand packages of Kubernetes that take ten minutes to compile for it.
# test/exactness/hints and test/exactness/explanations run one goroutine as well, with tens of
# thousands of changes. The goroutines of the simulation take turns, so that it would see no
# race there. test/architecture names packages only. tools/bundle links other versions than
# Berth, which would have to be compiled in addition.
alone='/(test/(architecture|exactness/(oracle|hints|explanations)|simulation)|tools/bundle)(/|$)'

race=${RACE:-}
read -ra compiler <<<"$(go env CC)"
if [ "$race" != off ] && ! { [ "$(go env CGO_ENABLED)" = 1 ] && command -v "${compiler[0]:-cc}" >/dev/null; }; then
	race=off
	echo 'tools/test.sh: no C compiler was found: the race detector is not used' >&2
fi

# list KIND prints the packages of that kind that have tests, and their folders, in the module
# of this folder. A module that only pins tools has no packages, which is not an error.
list() {
	local all='{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{range .Deps}} {{.}}{{end}}{{range .TestImports}} {{.}}{{end}}{{range .XTestImports}} {{.}}{{end}}{{end}}'
	go list -f "$all" ./... 2> >(grep -v 'matched no packages' >&2) | awk -v kind="$1" -v mark="$controlplane" -v long="$long" -v own="$own" '
		NF && $1 !~ own { is = "unit"
			for (i = 1; i <= NF; i++) if ($i == mark) is = $1 ~ long ? "long" : "integration"
			if (is == kind) print $1, $2 }'
}

# detects KIND PACKAGE FOLDER says whether the race detector is used for the tests of a package.
detects() {
	[ "$race" != off ] && ! grep -qE "$alone" <<<"$2" &&
		{ [ "$race" = all ] || { [ "$1" = unit ] && grep -qE "$concurrent" "$3"/*.go; }; }
}

# run KIND FLAG… runs the tests of that kind in every module.
run() {
	local kind=$1 module package folder start
	shift
	for module in $("$here/modules.sh"); do
		cd "$root/$module"
		local with=() without=()
		while read -r package folder; do
			if detects "$kind" "$package" "$folder"; then
				with+=("$package")
				grep -qs 'testing\.Short()' "$folder"/*_test.go || continue
			fi
			without+=("$package")
		done < <(list "$kind")
		[ $((${#with[@]} + ${#without[@]})) -gt 0 ] || continue
		start=$SECONDS
		printf '== %s tests in module %s: %d packages with the race detector, %d without\n' "$kind" "$module" ${#with[@]} ${#without[@]}
		# `make lint` runs vet. Linking without DWARF takes half the time, and these
		# binaries are not debugged.
		flags=(-vet=off -ldflags=-w "$@")
		if [ ${#with[@]} -gt 0 ]; then go test -race -short "${flags[@]}" "${with[@]}"; fi
		if [ ${#without[@]} -gt 0 ]; then go test "${flags[@]}" "${without[@]}"; fi
		printf '== passed in %d s\n' $((SECONDS - start))
	done
}

for kind in "$@"; do
	case $kind in
	unit) run unit -timeout 10m ;;
	# Two control planes at a time, since their tests wait most of the time.
	integration) run integration -timeout 20m -p 2 ;;
	page) "$here/test-page.sh" ;;
	# One at a time: some of them measure.
	long) run long -timeout 20m -p 1 ;;
	*)
		echo "usage: tools/test.sh [unit] [integration] [page] [long]" >&2
		exit 2
		;;
	esac
done
