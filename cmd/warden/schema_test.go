package main

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lm-warden/warden/cmd/internal/accesslog"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/configs/jsonschema"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/control/advice"
)

var update = flag.Bool("update", false, "write configs/*.schema.json anew")

// What scripts read has a published schema, which follows the types and only
// ever gains.
func TestStatusSchemaFollowsTheTypes(t *testing.T) {
	follows[control.Status](t, "warden status --json", "supervisor/control", "status.schema.json", configs.StatusSchema())
}

func TestAdviseSchemaFollowsTheTypes(t *testing.T) {
	follows[advice.Report](t, "warden advise --json", "supervisor/control/advice", "advise.schema.json", configs.AdviseSchema())
}

func TestAccessLogSchemaFollowsTheTypes(t *testing.T) {
	follows[accesslog.Line](t, "a line of warden's access log", "cmd/internal/accesslog", "access-log.schema.json", configs.AccessLogSchema())
}

func follows[T any](t *testing.T, title, folder, file string, content []byte) {
	t.Helper()
	root := filepath.Join("..", "..")
	docs, err := jsonschema.Comments(filepath.Join(root, folder))
	if err != nil {
		t.Fatal(err)
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
