package configs

import _ "embed"

//go:embed warden.example.yaml
var example []byte

//go:embed schema.json
var schema []byte

// Example is a configuration file with every key, its default and what it does.
func Example() []byte { return example }

// Schema is the JSON schema of the configuration file, for editors: it is
// derived from Config by a test.
func Schema() []byte { return schema }
