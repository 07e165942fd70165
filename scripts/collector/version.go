package main

import "runtime/debug"

// version is that of the Collector this was built from, as go.mod pins it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == "go.opentelemetry.io/collector/otelcol" {
			return m.Version
		}
	}
	return "unknown"
}
