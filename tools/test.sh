#!/usr/bin/env bash
# Runs the tests of every module: tools/test.sh unit integration long
#
# A package whose code or tests import test/controlplane, in whatever way, is
# an integration test; the others are unit tests. Of the former those named below
# are long ones. The race detector runs where there is a C compiler for it; RACE=off
# leaves it out.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
controlplane=github.com/berthdev/berth/test/controlplane
# Long ones wait for minutes of real time, or try out commands that measure: the
# suites that every change has to pass must not take longer than anybody waits.
long='/test/(alerts|explained|helm|olm|perf|restarts|soak)$'
# What has a target of its own, since it needs root and more than Go.
own='/test/realnode$'

race= with="without the race detector: no C compiler was found"
read -ra compiler <<<"$(go env CC)"
if [ "${RACE:-}" = off ]; then
	with="without the race detector, as asked"
elif [ "$(go env CGO_ENABLED)" = 1 ] && command -v "${compiler[0]:-cc}" >/dev/null; then
	race=-race with="with the race detector"
fi

# list KIND prints the packages of that kind that have tests, in this folder's
# module. A module that only pins tools has no packages, which is no fault.
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
		# The oracle is one goroutine beside a thousand packages of Kubernetes,
		# which take ten minutes to compile for the race detector. What goes on
		# in one world of test/hints or test/why is one goroutine, too, and ten thousands of
		# changes. tools/bundle links other versions than Berth: all of it once more.
		alone=$(grep -E '/(test/(oracle|hints|why)|tools/bundle)(/|$)' <<<"$packages" || true)
		packages=$(grep -vxF "${alone:-none}" <<<"$packages" || true)
		# `make lint` vets; nobody debugs these binaries, and linking them without
		# DWARF takes half the time.
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
	# One control plane at a time: two would share the machine's few cores.
	integration | long) run "$kind" -timeout 20m -p 1 ;;
	*)
		echo "usage: tools/test.sh [unit] [integration] [long]" >&2
		exit 2
		;;
	esac
done
