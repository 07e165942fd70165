package configs

import _ "embed"

var (
	//go:embed warden.example.yaml
	example []byte
	//go:embed schema.json
	schema []byte
	//go:embed status.schema.json
	statusSchema []byte
	//go:embed advise.schema.json
	adviseSchema []byte
	//go:embed access-log.schema.json
	accessLogSchema []byte
	//go:embed replay.schema.json
	replaySchema []byte
)

// Example is a configuration file with every key, its default and what it does.
func Example() []byte { return example }

// Schema is the JSON schema of the configuration file, for editors: it is
// derived from Config by a test.
func Schema() []byte { return schema }

// StatusSchema is the JSON schema of `warden status --json`: it is derived from
// the control API's types by a test, and only ever gains.
func StatusSchema() []byte { return statusSchema }

// AccessLogSchema is the JSON schema of a line of the access log: it is derived
// from its type by a test, and only ever gains.
func AccessLogSchema() []byte { return accessLogSchema }

// ReplaySchema is the JSON schema of what `warden bench --replay --json` writes:
// it is derived from its types by a test, and only ever gains.
func ReplaySchema() []byte { return replaySchema }

// AdviseSchema is the JSON schema of `warden advise --json`: it is derived from
// its types by a test, and only ever gains.
func AdviseSchema() []byte { return adviseSchema }
