package main

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/configs/jsonschema"
	"github.com/lm-warden/warden/supervisor/control"
)

var update = flag.Bool("update", false, "write configs/status.schema.json anew")

// `warden status --json` is read by scripts: its schema is published, follows
// the types, and only ever gains.
func TestStatusSchemaFollowsTheTypes(t *testing.T) {
	docs, err := jsonschema.Comments(filepath.Join("..", "..", "supervisor", "control"))
	if err != nil {
		t.Fatal(err)
	}
	now, err := (jsonschema.Derivation{Tag: "json", Docs: docs}).Of(reflect.TypeFor[control.Status]())
	if err != nil {
		t.Fatal(err)
	}
	now.Dialect, now.Title = jsonschema.Draft, "warden status --json"
	published, err := jsonschema.Decode(configs.StatusSchema())
	if err != nil {
		t.Fatal(err)
	}
	if lost := jsonschema.Lost(published, now); len(lost) > 0 {
		t.Fatalf("readers of `warden status --json` lose something; keep it, or raise control.Schema and begin a new file:\n%s", strings.Join(lost, "\n"))
	}
	want, err := now.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(filepath.Join("..", "..", "configs", "status.schema.json"), want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(want) != string(configs.StatusSchema()) {
		t.Error("configs/status.schema.json is not what the types say: `go test ./cmd/warden -run StatusSchema -update` writes it anew")
	}
}
