package main

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lm-warden/warden/cmd/internal/accesslog"
	"github.com/lm-warden/warden/cmd/internal/bench"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/configs/jsonschema"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/control/advice"
)

var update = flag.Bool("update", false, "write configs/*.schema.json anew")

// What scripts read has a published schema, which follows the types and only
// ever gains.
func TestStatusSchemaFollowsTheTypes(t *testing.T) {
	follows[control.Status](t, "warden status --json", "status.schema.json", configs.StatusSchema(), "supervisor/control")
}

func TestAdviseSchemaFollowsTheTypes(t *testing.T) {
	follows[advice.Report](t, "warden advise --json", "advise.schema.json", configs.AdviseSchema(), "supervisor/control/advice")
}

func TestAccessLogSchemaFollowsTheTypes(t *testing.T) {
	follows[accesslog.Line](t, "a line of warden's access log", "access-log.schema.json", configs.AccessLogSchema(), "cmd/internal/accesslog")
}

func TestReplaySchemaFollowsTheTypes(t *testing.T) {
	follows[bench.ReplayFile](t, "warden bench --replay --json", "replay.schema.json", configs.ReplaySchema(),
		"cmd/internal/load", "cmd/internal/replay", "cmd/internal/bench")
}

// follows holds a published schema to a type, whose fields are described in
// folders.
func follows[T any](t *testing.T, title, file string, content []byte, folders ...string) {
	t.Helper()
	root := filepath.Join("..", "..")
	docs := map[string]string{}
	for _, folder := range folders {
		more, err := jsonschema.Comments(filepath.Join(root, folder))
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(docs, more)
	}
	now, err := (jsonschema.Derivation{Tag: "json", Docs: docs}).Of(reflect.TypeFor[T]())
	if err != nil {
		t.Fatal(err)
	}
	now.Dialect, now.Title = jsonschema.Draft, title
	published, err := jsonschema.Decode(content)
	if err != nil {
		t.Fatal(err)
	}
	if lost := jsonschema.Lost(published, now); len(lost) > 0 {
		t.Fatalf("readers of %s lose something; keep it, or begin a new file:\n%s", title, strings.Join(lost, "\n"))
	}
	want, err := now.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(filepath.Join(root, "configs", file), want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(want) != string(content) {
		t.Errorf("configs/%s is not what the types say: `make schemas` writes it anew", file)
	}
}
