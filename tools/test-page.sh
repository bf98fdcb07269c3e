#!/usr/bin/env bash
# Tests the page of `kubectl berth ui`: tools/test-page.sh [all]
#
# Its units run in Node, then the browser specs of test/ui that take less than two minutes; with
# all, every one of them. They need Node with npm, and a Chromium: $CHROMIUM, or the first one
# that is found. With INSTALL_CHROMIUM=1, which .ci/run sets, Debian's is installed where there is
# none. What cannot run is named in one line; with all, that is an error.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
which=${1:-some}

# unavailable REASON ends the script.
unavailable() {
	echo "tools/test-page.sh: $*"
	if [ "$which" = all ]; then exit 1; fi
	exit 0
}

# install FOLDER installs npm packages.
install() {
	local why code=0
	why=$(tools/npm.sh "$1") || code=$?
	case $code in
	0) ;;
	3) unavailable "$why: neither the units of the page nor its browser specs were run" ;;
	*) exit "$code" ;;
	esac
}

# find_chromium prints the path of a Chromium that starts: Ubuntu's chromium-browser may only say
# how to install one.
find_chromium() {
	local name
	for name in ${CHROMIUM:-} chromium chromium-browser google-chrome-stable google-chrome; do
		if timeout 20 "$name" --version >/dev/null 2>&1; then
			command -v "$name"
			return
		fi
	done
	return 1
}

# install_chromium installs Debian's package, if it may and can.
install_chromium() {
	[ "${INSTALL_CHROMIUM:-}" = 1 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return
	echo 'tools/test-page.sh: installing chromium' >&2
	{ timeout 60 apt-get update && DEBIAN_FRONTEND=noninteractive timeout 240 apt-get install -y --no-install-recommends chromium; } >/dev/null 2>&1
}

start=$SECONDS
install cmd/kubectl-berth/ui/web
echo "== the page's units"
(cd cmd/kubectl-berth/ui/web && npm run --silent check && npm test --silent)

install test/ui
CHROMIUM=$(find_chromium || { install_chromium && find_chromium; }) ||
	unavailable 'no Chromium was found or could be installed: the browser specs were not run; CHROMIUM=PATH names one'
export CHROMIUM
echo "== browser specs of the page, with $("$CHROMIUM" --version 2>/dev/null)"
if [ "$which" = all ]; then
	specs=(test/ui/specs/*.test.mjs)
else
	# The others wait for seconds of real time, or load 25,000 objects.
	specs=(test/ui/specs/{keyboard,security,states,views}.test.mjs)
	export BERTH_UI_SOME=1
fi
node --test --test-concurrency=1 --test-reporter=spec "${specs[@]}"
printf '== passed in %d s\n' $((SECONDS - start))
