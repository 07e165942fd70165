#!/usr/bin/env bash
# Runs each fuzz test of the module: fuzz.sh TIME gives each TIME, fuzz.sh
# --total TIME shares TIME out among them. Times are whole seconds or minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
all=()
for package in $(go list ./...); do
	for fuzz in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		all+=("$package $fuzz")
	done
done
time=${1:-30s}
if [ "$time" = --total ]; then
	total=${2:?how long in all}
	seconds=${total%[sm]}
	[ "${total: -1}" != m ] || seconds=$((seconds * 60))
	time=$(((seconds + ${#all[@]} - 1) / ${#all[@]}))s
fi
echo "${#all[@]} fuzz tests, $time each"
for one in "${all[@]}"; do
	read -r package fuzz <<<"$one"
	echo "== $package $fuzz"
	go test -run '^$' -fuzz "^$fuzz\$" -fuzztime "$time" "$package"
done
