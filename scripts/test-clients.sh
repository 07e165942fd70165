#!/usr/bin/env bash
# Installs the pinned SDKs outside the checkout and runs them against warden.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
command -v npm >/dev/null || { echo "test-clients: npm is not installed, the SDK tests were not run" >&2; exit 3; }
cache=${XDG_CACHE_HOME:-$HOME/.cache}/warden/clients-$(sha256sum "$root/scripts/clients/package-lock.json" | cut -c1-16)
mkdir -p "$cache"
cp "$root"/scripts/clients/{package.json,package-lock.json,*.mjs} "$cache"
if [ ! -e "$cache/.installed" ]; then
	(cd "$cache" && npm ci --ignore-scripts --no-audit --no-fund)
	touch "$cache/.installed"
fi
cd "$cache"
WARDEN_BIN=$root/bin/warden timeout 300 npm test
