#!/usr/bin/env bash
# Times a first visit: the demo, a pod that fits nowhere, and the page of `kubectl berth ui` in a
# Chromium until it shows why. It needs what tools/test-page.sh needs, and ends what it starts.
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

kubectl=$(make --no-print-directory controlplane | tail -1)/kubectl
"$kubectl" apply -f - <<'EOF'
apiVersion: v1
kind: Pod
metadata: {name: large, namespace: default}
spec:
  schedulerName: shop
  containers:
  - name: app
    image: registry.k8s.io/pause:3.10
    resources: {requests: {cpu: "64"}}
EOF
bin/kubectl-berth ui >"$log/ui" &
stop="kill $!; $stop"
for _ in $(seq 100); do
	address=$(grep -o 'http://[^ ]*' "$log/ui" || true)
	if [ -n "$address" ]; then break; fi
	sleep 0.1
done
node test/ui/visit.mjs "$address" default/large
