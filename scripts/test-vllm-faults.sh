#!/usr/bin/env bash
# Kills the API server, EngineCore, the shim and warden around real vLLM on the
# CPU, so many rounds each, and checks that nothing is left and all serves again.
# Exit code 3: vLLM's CPU build cannot be installed here.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-10}
bin/warden setup --device cpu || { echo "test-vllm-faults: vLLM's CPU build cannot be installed here" >&2; exit 3; }
go test -tags vllm -count=1 -timeout 0 -v -run 'TestVLLMFaults' ./cmd/warden -rounds "$rounds"
