#!/usr/bin/env bash
# Sends the spans of a real demo to a real OpenTelemetry Collector: what arrives
# there, and that warden stays well when it refuses, hangs or is gone. The
# Collector is built from its modules, pinned in scripts/collector, into a cache.
# Exit code 3: its modules cannot be had here.
set -euo pipefail
cd "$(dirname "$0")/.."
key=$(cat scripts/collector/{go.mod,go.sum,*.go} | sha256sum | cut -c1-16)
dir=${XDG_CACHE_HOME:-$HOME/.cache}/warden/collector
collector=$dir/collector-$key
mkdir -p "$dir"
(
	flock 9 # whoever comes second waits for the first
	[ -x "$collector" ] && exit
	cd scripts/collector
	export CGO_ENABLED=0 GOWORK=off
	if ! go list -deps . >/dev/null; then
		echo "test-otel: the Collector's modules cannot be had here, nothing was tested" >&2
		exit 3
	fi
	go build -trimpath -ldflags='-s -w' -o "$collector.new" .
	mv "$collector.new" "$collector"
) 9>"$dir/lock"
"$collector" --version
go test -count=1 -v -timeout 5m -run '^TestCollector' ./cmd/warden -collector "$collector"
