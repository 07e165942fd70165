#!/usr/bin/env bash
# Measures what warden costs in the path of requests, beside HAProxy, nginx,
# vllm-router and smg, and prints nothing but progress: bin/bench-path.md and
# .json are the result. Arguments are cmd/bench-path's. What cannot be installed is
# named as absent in the report.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/peers.sh

haproxy_peer
nginx_peer
vllm_router_peer
smg_peer
go build -o bin/bench-path ./cmd/bench-path
exec bin/bench-path -peers "$peers" -out bin "$@"
