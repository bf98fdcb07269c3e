#!/usr/bin/env bash
# Looks for known vulnerabilities in what the operator's module calls, with govulncheck.
# What it knows is in a database on the network, vuln.go.dev unless GOVULNDB names
# another one, such as file:///path/to/a/copy. Without a database nothing is checked,
# which is a failure; VULN=off leaves the check out, and says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "${VULN:-}" = off ]; then
	echo 'govulncheck: not run, as VULN=off asks: nothing was checked' >&2
	exit
fi
code=0
go tool -modfile=tools/dev/go.mod govulncheck -db "${GOVULNDB:-https://vuln.go.dev}" ./... || code=$?
case $code in
0) ;;
3) # it found some, and named them
	exit 1
	;;
*)
	cat >&2 <<-END
		govulncheck: no answer (exit code $code, the reason is above): nothing was checked.
		It reads ${GOVULNDB:-https://vuln.go.dev}. Where that cannot be reached, GOVULNDB=file:///PATH
		names a copy of it, and VULN=off leaves the check out.
	END
	exit "$code"
	;;
esac
