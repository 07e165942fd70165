#!/usr/bin/env bash
# Installs vLLM's CPU build once, outside the checkout, runs two real replicas
# of it through warden, and holds the simulated engine against it. Exit code 3:
# it cannot be installed here.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! ldconfig -p | grep -q libnuma.so.1; then
	{ [ "$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq libnuma1; } ||
		{ echo "test-vllm: libnuma.so.1 is missing (Debian: libnuma1), real vLLM was not run" >&2; exit 3; }
fi
bin/warden setup --device cpu || { echo "test-vllm: vLLM's CPU build cannot be installed here, real vLLM was not run" >&2; exit 3; }
# One round here; RUN=Real also provokes vLLM's failures, `make test-vllm-faults` kills for longer.
go test -tags vllm -count=1 -timeout 20m -v -run "${RUN:-TestRealVLLM$|TestRealAgreement|TestRealEngine}" ./supervisor/vllm ./cmd/internal/agreement ./cmd/warden
