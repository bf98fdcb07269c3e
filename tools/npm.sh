#!/usr/bin/env bash
# Installs what the lock file of a folder names: tools/npm.sh FOLDER
#
# It ends with 3, and says why, if there is no Node with npm, or if npm's registry cannot be reached or refuses:
# callers name what they do not check then.
set -euo pipefail
cd "$1"
if ! { command -v node && command -v npm; } >/dev/null; then
	echo 'Node with npm was not found'
	exit 3
fi
if [ node_modules/.package-lock.json -nt package-lock.json ]; then exit 0; fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if npm ci --no-audit --no-fund --loglevel=error --fetch-retries=1 --fetch-timeout=30000 >"$log" 2>&1; then exit 0; fi
if grep -qE 'ENOTFOUND|EAI_AGAIN|ECONN|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|code E(401|403|5[0-9][0-9])' "$log"; then
	echo "npm's registry cannot be reached, or refuses"
	exit 3
fi
cat "$log" >&2
exit 1
