#!/usr/bin/env bash
# Looks for known holes in what warden is built from. GOVULNDB names another
# database than https://vuln.go.dev: a mirror, or file:///DIR with an unpacked
# https://vuln.go.dev/vulndb.zip. Exits with 3 where the public database cannot
# be reached; one that was named and cannot be read is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
output=$(mktemp)
trap 'rm -f "$output"' EXIT
code=0
go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ${GOVULNDB:+-db "$GOVULNDB"} ./... >"$output" 2>&1 || code=$?
cat "$output"
# go run exits with 1 and prints the program's own status: 3 when it has found
# something, 1 when it could not look.
if [ "$code" != 0 ] && ! grep -q '^exit status 3$' "$output" && grep -qiE 'fetching vulnerabilities|vuln\.go\.dev|dial tcp|no such host|proxyconnect|timeout|forbidden|module lookup disabled' "$output"; then
	if [ -n "${GOVULNDB:-}" ]; then
		echo "the database of known holes that GOVULNDB names cannot be read" >&2
		exit 1
	fi
	echo "the database of known holes cannot be reached from here: GOVULNDB=URL or file:///DIR names another one"
	exit 3
fi
exit "$code"
