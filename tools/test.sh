#!/usr/bin/env bash
# Runs the tests of every module: tools/test.sh unit integration long
#
# A package whose code or tests depend on test/support/controlplane is an integration test; the
# others are unit tests. Those named below are long ones. The race detector is used if a C
# compiler exists; RACE=off disables it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
controlplane=github.com/berthdev/berth/test/support/controlplane
# Long tests wait for minutes of real time, or run commands that measure. They are not part
# of the suites that every change has to pass.
long='/test/(observability/alerts|install/(helm|olm)|perf(/explanations)?|handover/(restarts|soak))$'
# Tests with a target of their own, since they need root and more than Go.
own='/test/install/realnode$'

race= with="without the race detector: no C compiler was found"
read -ra compiler <<<"$(go env CC)"
if [ "${RACE:-}" = off ]; then
	with="without the race detector, as asked"
elif [ "$(go env CGO_ENABLED)" = 1 ] && command -v "${compiler[0]:-cc}" >/dev/null; then
	race=-race with="with the race detector"
fi

# list KIND prints the packages of that kind that have tests, in the module of this folder.
# A module that only pins tools has no packages, which is not an error.
list() {
	local all='{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{range .Deps}} {{.}}{{end}}{{range .TestImports}} {{.}}{{end}}{{range .XTestImports}} {{.}}{{end}}{{end}}'
	go list -f "$all" ./... 2> >(grep -v 'matched no packages' >&2) | awk -v kind="$1" -v mark="$controlplane" -v long="$long" -v own="$own" '
		NF && $1 !~ own { is = "unit"
			for (i = 1; i <= NF; i++) if ($i == mark) is = $1 ~ long ? "long" : "integration"
			if (is == kind) print $1 }'
}

# run KIND FLAG… runs the tests of that kind in every module.
run() {
	local kind=$1 module packages alone start
	shift
	for module in $("$here/modules.sh"); do
		cd "$root/$module"
		packages=$(list "$kind")
		[ -n "$packages" ] || continue
		start=$SECONDS
		printf '== %s tests in module %s, %d packages, %s\n' "$kind" "$module" "$(wc -l <<<"$packages")" "$with"
		# The oracle is one goroutine, and a thousand packages of Kubernetes that take
		# ten minutes to compile for the race detector. test/exactness/hints and test/exactness/explanations run one
		# goroutine as well, with tens of thousands of changes. The goroutines of the simulation
		# take turns, so that the detector would see no race there. tools/bundle links other
		# versions than Berth, which would have to be compiled in addition.
		alone=$(grep -E '/(test/exactness/(oracle|hints|explanations)(/|$)|test/simulation$|tools/bundle(/|$))' <<<"$packages" || true)
		packages=$(grep -vxF "${alone:-none}" <<<"$packages" || true)
		# `make lint` runs vet. Linking without DWARF takes half the time, and these
		# binaries are not debugged.
		flags=(-vet=off -ldflags=-w "$@")
		# shellcheck disable=SC2086 # no argument for an empty $race, one for each package
		if [ -n "$packages" ]; then go test $race "${flags[@]}" $packages; fi
		# shellcheck disable=SC2086
		if [ -n "$alone" ]; then go test "${flags[@]}" $alone; fi
		printf '== passed in %d s\n' $((SECONDS - start))
	done
}

for kind in "$@"; do
	case $kind in
	unit) run unit -timeout 10m ;;
	# One control plane at a time, since two would share the few cores.
	integration | long) run "$kind" -timeout 20m -p 1 ;;
	*)
		echo "usage: tools/test.sh [unit] [integration] [long]" >&2
		exit 2
		;;
	esac
done
