#!/usr/bin/env bash
# Times a first visit: the demo, and the page of `kubectl berth ui` in a Chromium until it shows why
# the demo's last pod waits. It needs what tools/test-page.sh needs, and ends what it starts.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools/npm.sh test/ui
log=$(mktemp -d)
stop=true
trap 'set +e; eval "$stop"; rm -rf "$log"' EXIT

begin=$SECONDS
DEMO_KEEP=1 make --no-print-directory demo | tee "$log/demo"
stop=$(sed -n 's/.*stop it with: //p' "$log/demo")
KUBECONFIG=$(sed -n 's/.*export KUBECONFIG=//p' "$log/demo")
export KUBECONFIG
printf '%d s  make demo\n' $((SECONDS - begin))

bin/kubectl-berth ui >"$log/ui" &
stop="kill $!; $stop"
if ! timeout 10 sh -c "until grep -q http:// '$log/ui'; do sleep 0.1; done"; then
	echo "tools/first-visit.sh: kubectl berth ui printed no address" >&2
	exit 1
fi
node test/ui/visit.mjs "$(grep -o 'http://[^ ]*' "$log/ui")"
