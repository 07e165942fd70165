#!/usr/bin/env bash
# Measures warden's policies and other routers on two real vLLM replicas on the
# CPU, and prints nothing but progress: ladder-vllm.md and .json are the result.
# Arguments are cmd/ladder-vllm's. What cannot be installed is named as absent
# in the report. Exit code 3: vLLM itself cannot be installed here.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/peers.sh

ldconfig -p | grep -q libnuma.so.1 || debian libnuma1 || { say "libnuma.so.1 is missing (Debian: libnuma1)"; exit 3; }
bin/warden setup --device cpu || { say "vLLM's CPU build cannot be installed here"; exit 3; }
haproxy_peer
vllm_router_peer
smg_peer
exec go run ./cmd/ladder-vllm -peers "$peers" "$@"
