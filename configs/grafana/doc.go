// Package grafana holds warden.json, a dashboard for Grafana 10 and newer, and
// its tests; the alerts in ../prometheus are tested here as well, against the
// same list of names.
//
// Every query is also run against a real Prometheus that scrapes a real demo:
// scripts/test-prometheus.sh starts both and runs live_test.go.
package grafana
