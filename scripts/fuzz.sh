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
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "${#all[@]} fuzz tests, $time each"
for one in "${all[@]}"; do
	read -r package fuzz <<<"$one"
	echo "== $package $fuzz"
	if ! go test -run '^$' -fuzz "^$fuzz\$" -fuzztime "$time" "$package" 2>&1 | tee "$log"; then
		# Until Go 1.27 the end of the time can itself be reported as a failure
		# (go.dev/issue/75804): no input is named then.
		grep -A1 '^--- FAIL' "$log" | grep -qx ' *context deadline exceeded' || exit 1
		! grep -q 'Failing input written' "$log" || exit 1
		echo "== $package $fuzz: ended by its time, no input failed"
	fi
done
