#!/usr/bin/env bash
# Checks the operator's module for known vulnerabilities with govulncheck. The database is
# vuln.go.dev, or GOVULNDB, such as file:///path/to/a/copy. It is a failure if there is no
# database; VULN=off skips the check and prints that.
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
3) # vulnerabilities were found and printed
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
