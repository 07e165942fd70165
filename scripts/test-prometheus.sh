#!/usr/bin/env bash
# Checks configs/prometheus with promtool, then lets a real Prometheus scrape a
# real demo and asks it every query of configs/grafana/warden.json: each must
# return data. Needs bin/warden. Exit code 3: there is no Prometheus here.
set -euo pipefail
cd "$(dirname "$0")/.."
warden=${WARDEN_BIN:-$PWD/bin/warden}
fail() { echo "test-prometheus: $*" >&2; exit 1; }

# Debian's package is unpacked, not installed: installing starts a service.
if ! command -v prometheus >/dev/null || ! command -v promtool >/dev/null; then
	unpacked=${XDG_CACHE_HOME:-$HOME/.cache}/warden/prometheus
	mkdir -p "$unpacked"
	if [ ! -x "$unpacked/usr/bin/prometheus" ]; then
		{ [ "$(id -u)" != 0 ] || apt-get update -qq; } &&
			(cd "$unpacked" && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb .) ||
			{ echo "test-prometheus: Debian's package prometheus cannot be had here, nothing was tested" >&2; exit 3; }
	fi
	export PATH=$unpacked/usr/bin:$PATH
fi
prometheus --version 2>&1 | head -n 1

echo "== configuration and alert rules"
(cd configs/prometheus && promtool check config prometheus.yml && promtool test rules rules_test.yaml)

# Short: unix sockets live in it.
home=$(mktemp -d /tmp/wp-XXXXXX)
pids=()
cleanup() {
	for pid in "${pids[@]}"; do kill -INT -- "-$pid" 2>/dev/null || true; done
	for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
	rm -rf "$home"
}
trap cleanup EXIT

# found FILE PATTERN SECONDS prints the first match, once it is there.
found() {
	local n
	for ((n = 0; n < $3 * 5; n++)); do
		if grep -om1 -E "$2" "$1" 2>/dev/null; then return; fi
		sleep 0.2
	done
	cat "$1" >&2
	fail "no \"$2\" within $3 s"
}

echo "== demo and Prometheus"
as_demo() {
	env HOME="$home" XDG_RUNTIME_DIR="$home" XDG_STATE_HOME="$home" XDG_CACHE_HOME="$home" XDG_CONFIG_HOME="$home" "$warden" "$@"
}
set -m # every job gets a process group of its own, and takes SIGINT
as_demo up --demo --demo-sessions 16 --no-tui --progress plain --listen 127.0.0.1:0 >"$home/demo.log" 2>&1 &
pids+=($!)
found "$home/demo.log" 'warden serving' 60 >/dev/null
api=$(found "$home/demo.log" '127\.0\.0\.1:[0-9]+' 1)

mkdir "$home/data"
sed -e "s/127\.0\.0\.1:8000/$api/" -e 's/_interval: 15s/_interval: 1s/' configs/prometheus/prometheus.yml >"$home/prometheus.yml"
cp configs/prometheus/rules.yaml "$home/"
prometheus --config.file="$home/prometheus.yml" --storage.tsdb.path="$home/data" --web.listen-address=127.0.0.1:0 \
	>"$home/prometheus.log" 2>&1 &
pids+=($!)
found "$home/prometheus.log" 'Server is ready' 60 >/dev/null
url=http://$(found "$home/prometheus.log" '127\.0\.0\.1:[1-9][0-9]*' 1)
echo "warden on $api, Prometheus on $url"

# A restart of a replica with conversations, so that there is one to be seen.
for ((n = 0; n < 300; n++)); do
	if [ -n "$(promtool query instant "$url" 'min(warden_sessions{kind="sticky"}) > 0')" ]; then break; fi
	sleep 0.2
done
as_demo restart r1

echo "== every query of the dashboard"
go test -count=1 -v -run 'Every|Alerts' ./configs/grafana -prometheus "$url"
