#!/usr/bin/env bash
# Measures warden's policies and other routers on two real vLLM replicas on the
# CPU, and prints nothing but progress: ladder-vllm.md and .json are the result.
# Arguments are cmd/ladder-vllm's. What cannot be installed is named as absent
# in the report. Exit code 3: vLLM itself cannot be installed here.
set -euo pipefail
cd "$(dirname "$0")/.."
cache="${XDG_CACHE_HOME:-$HOME/.cache}/warden"
peers="$cache/peers"

say() { echo "ladder-vllm: $*" >&2; }

debian() { # PACKAGE: installed where that is ours to do
	[ "$(id -u)" = 0 ] && { apt-get install -y -qq "$1" || { apt-get update -qq && apt-get install -y -qq "$1"; }; } >/dev/null 2>&1
}

pypi() { # PACKAGE VERSION: a virtual environment outside the checkout, kept
	local dir="$peers/$1-$2"
	[ -e "$dir/complete" ] && return
	rm -rf "$dir"
	if python3 -m venv "$dir" && "$dir/bin/pip" install --quiet --disable-pip-version-check "$1==$2"; then
		touch "$dir/complete"
	else
		rm -rf "$dir"
		say "$1 $2 cannot be installed here"
	fi
}

ldconfig -p | grep -q libnuma.so.1 || debian libnuma1 || { say "libnuma.so.1 is missing (Debian: libnuma1)"; exit 3; }
bin/warden setup --device cpu || { say "vLLM's CPU build cannot be installed here"; exit 3; }
command -v haproxy >/dev/null || [ -x /usr/sbin/haproxy ] || debian haproxy || say "haproxy cannot be installed here"
mkdir -p "$peers"
pypi vllm-router 0.1.17
pypi smg 1.13.0
exec go run ./cmd/ladder-vllm -peers "$peers" "$@"
