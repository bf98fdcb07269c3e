#!/usr/bin/env bash
# Times a first visit: the demo, and the page of `kubectl berth ui` in a Chromium until it shows why
# the demo's last pod waits. It needs what tools/test-page.sh needs, and ends what it starts.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools/npm.sh test/ui
log=$(mktemp -d)
stop=true
trap 'eval "$stop"; rm -rf "$log"' EXIT

begin=$SECONDS
DEMO_KEEP=1 make --no-print-directory demo | tee "$log/demo"
stop=$(sed -n 's/.*stop it with: //p' "$log/demo")
KUBECONFIG=$(sed -n 's/.*export KUBECONFIG=//p' "$log/demo")
export KUBECONFIG
printf '%d s  make demo\n' $((SECONDS - begin))

bin/kubectl-berth ui >"$log/ui" &
stop="kill $!; $stop"
for _ in $(seq 100); do
	address=$(grep -o 'http://[^ ]*' "$log/ui" || true)
	if [ -n "$address" ]; then break; fi
	sleep 0.1
done
node test/ui/visit.mjs "$address"
