package configs

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lm-warden/warden/configs/jsonschema"
)

var update = flag.Bool("update", false, "write schema.json anew")

// derived is the schema of Config with the defaults of Default.
func derived(t *testing.T) *jsonschema.Schema {
	t.Helper()
	docs, err := jsonschema.Comments(".")
	if err != nil {
		t.Fatal(err)
	}
	d := jsonschema.Derivation{Tag: "mapstructure", Docs: docs, Closed: true, AllOptional: true}
	s, err := d.Of(reflect.TypeFor[Config]())
	if err != nil {
		t.Fatal(err)
	}
	s.Dialect, s.Title = jsonschema.Draft, "LM Warden configuration"
	for _, leaf := range leaves(reflect.ValueOf(Default()), "") {
		at := s
		for _, part := range strings.Split(leaf.key, Separator) {
			at = at.Properties[part]
		}
		if d, ok := leaf.value.(time.Duration); ok {
			at.Default = d.String()
		} else if v := reflect.ValueOf(leaf.value); !v.IsZero() {
			at.Default = leaf.value
		}
	}
	return s
}

func TestSchemaFollowsConfig(t *testing.T) {
	want, err := derived(t).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(want) != string(Schema()) {
		t.Error("schema.json is not what Config says: `go test ./configs -update` writes it anew")
	}
}

// asJSON turns a YAML document into the JSON that a schema is about.
func asJSON(t *testing.T, content string) []byte {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(content), &v); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The schema and the loader must agree: what an editor marks, warden refuses.
func TestSchemaAgreesWithLoader(t *testing.T) {
	s, err := jsonschema.Decode(Schema())
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, content string
		valid         bool
	}{
		{"example", string(Example()), true},
		{"numbers as limits", "models:\n- alias: qwen3-4b\n  spill_limit: 4\n", true},
		{"policy as on and off", "models:\n- alias: qwen3-4b\n  affinity: off\n", true},
		{"long duration", "session_ttl: 1h30m\n", true},
		{"unknown key", "listenn: 127.0.0.1:1\n", false},
		{"unknown key of a model", "models:\n- alias: qwen3-4b\n  spil: 4\n", false},
		{"a tier", "models:\n- alias: qwen3-4b\n  kv_offload: 12.5\n", true},
		{"a tier by itself", "models:\n- alias: qwen3-4b\n  kv_offload: auto\n", true},
		{"no tier", "models:\n- alias: qwen3-4b\n  kv_offload: \"off\"\n", true},
		{"a tier with a unit", "models:\n- alias: qwen3-4b\n  kv_offload: 16G\n", false},
		{"a collector", "tracing:\n  endpoint: http://127.0.0.1:4318\n", true},
		{"a collector with a password", "tracing:\n  endpoint: http://user:secret@127.0.0.1:4318\n", false},
		{"a collector without scheme", "tracing:\n  endpoint: 127.0.0.1:4318\n", false},
		{"large bodies", "spool_dir: /var/tmp\nspool_above_mib: 4\n", true},
		{"all bodies", "spool_above_mib: 0\n", false},
		{"bodies in bytes", "spool_above_mib: 16777216\n", false},
		{"spill limit 0", "models:\n- alias: qwen3-4b\n  spill_limit: 0\n", false},
		{"overcommit", "models:\n- alias: qwen3-4b\n  admission:\n    overcommit: -0.1\n    rotate_after: 90s\n", true},
		{"overcommit in percent", "models:\n- alias: qwen3-4b\n  admission:\n    overcommit: 10\n", false},
		{"policy", "models:\n- alias: qwen3-4b\n  affinity: sometimes\n", false},
		{"system turns", "models:\n- alias: qwen3-4b\n  system_turns: drop\n", false},
		{"negative dp", "models:\n- alias: qwen3-4b\n  dp: -1\n", false},
		{"device", "engine:\n  device: tpu\n", false},
		{"duration without unit", "drain: soon\n", false},
		{"no sessions", "max_sessions: 0\n", false},
		{"section is a list", "engine: []\n", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			marked := s.Check(asJSON(t, tc.content), false)
			loaded, err := Load(Source{Files: []string{write(t, "w.yaml", tc.content)}})
			if err == nil {
				err = loaded.Config.Validate()
			}
			if (len(marked) == 0) != tc.valid || (err == nil) != tc.valid {
				t.Errorf("schema marks %q, warden says %v, want valid = %v", marked, err, tc.valid)
			}
		})
	}
}
