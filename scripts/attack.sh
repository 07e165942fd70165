#!/usr/bin/env bash
# Attacks the built program (the table is in cmd/warden/attack_test.go) and
# fuzzes all that reads bytes from outside.
#   attack.sh short        under 90 s of attacks and fuzzing, for every change
#   attack.sh full [TIME]  all attacks and limits, then TIME (30m) of fuzzing in all
set -euo pipefail
cd "$(dirname "$0")/.."
form=${1:-full} total=${2:-30m}
attacks='^TestAttack|^TestTLS$|^TestWatchdogOverTLS$|^TestFigureNoDescriptors$|^TestFigureFullDisk$|^TestFigureReadOnlyState$'
case $form in
short)
	attacks='^TestAttack(Smuggling|Paths|Headers|Secrets|AsAnotherUser)$'
	go test -count=1 -timeout 5m -run "$attacks" ./cmd/warden
	# So many inputs, not so many seconds: the end of a fuzzing time can itself
	# be reported as a failure (go.dev/issue/75804, mended in Go 1.27).
	go test -run '^$' -fuzz '^FuzzAgreesWithTheServer$' -fuzztime 300000x ./router/framing
	go test -run '^$' -fuzz '^FuzzParse$' -fuzztime 150000x ./router/keys
	;;
full)
	go test -count=1 -timeout 30m -v -run "$attacks" ./cmd/warden
	WARDEN_BARS=full go test -count=1 -timeout 30m -run 'Bar|Slow|Keys|Bodies|WhoMay|Paths' ./router/...
	scripts/fuzz.sh --total "$total"
	;;
*)
	echo "usage: $0 short|full [TIME]" >&2
	exit 2
	;;
esac
