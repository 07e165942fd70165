#!/usr/bin/env bash
# Runs each fuzz test of the module for the given time.
set -euo pipefail
time=${1:-30s}
for package in $(go list ./...); do
	for fuzz in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		echo "== $package $fuzz"
		go test -run '^$' -fuzz "^$fuzz\$" -fuzztime "$time" "$package"
	done
done
