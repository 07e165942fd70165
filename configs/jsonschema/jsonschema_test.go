package jsonschema

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

type inner struct {
	Count uint64 `json:"count"`
}

type outer struct {
	// Name is
	// what it is called.
	Name    string             `json:"name" oneof:"a b"`
	Limit   string             `json:"limit,omitempty" type:"string,integer" pattern:"^auto$" min:"1"` // auto or a number
	Share   *float64           `json:"share,omitempty" max:"1"`
	At      time.Time          `json:"at,omitzero"`
	Wait    time.Duration      `json:"wait,omitempty"`
	List    []inner            `json:"list"`
	Map     map[string]float64 `json:"map,omitempty"`
	Flag    bool               `json:"flag,omitempty"`
	Skipped string             `json:"-"`
}

func derive(t *testing.T) *Schema {
	t.Helper()
	docs, err := Comments(".")
	if err == nil {
		var s *Schema
		if s, err = (Derivation{Tag: "json", Docs: docs}).Of(reflect.TypeFor[outer]()); err == nil {
			return s
		}
	}
	t.Fatal(err)
	return nil
}

func TestDerivedSchemaSurvivesItsFile(t *testing.T) {
	s := derive(t)
	if got := s.Properties["name"].Description; got != "Name is what it is called." {
		t.Errorf("description of name: %q", got)
	}
	if got := s.Properties["limit"].Description; got != "auto or a number" {
		t.Errorf("description of limit: %q", got)
	}
	if _, ok := s.Properties["Skipped"]; ok || len(s.Properties) != 8 {
		t.Errorf("properties: %v", s.Properties)
	}
	raw, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again, s) {
		t.Errorf("the schema changed on the way through its file:\n%s", raw)
	}
}

func TestCheck(t *testing.T) {
	s := derive(t)
	for _, tc := range []struct {
		name, doc string
		strict    bool
		want      string // "" = valid
	}{
		{"least", `{"name":"a","list":[]}`, true, ""},
		{"all", `{"name":"b","limit":3,"share":0.5,"at":"x","wait":"1m30s","list":[{"count":1}],"map":{"k":1.5},"flag":true}`, true, ""},
		{"text for a number", `{"name":"a","limit":"auto","list":[]}`, true, ""},
		{"missing", `{"name":"a"}`, false, "$: list is missing"},
		{"type", `{"name":1,"list":[]}`, false, "$.name: number, want string"},
		{"null", `{"name":"a","list":null}`, false, "$.list: null, want array"},
		{"enum", `{"name":"c","list":[]}`, false, `$.name: "c" is not one of`},
		{"pattern", `{"name":"a","limit":"x","list":[]}`, false, "$.limit: \"x\" does not match"},
		{"low", `{"name":"a","limit":0,"list":[]}`, false, "$.limit: 0 is out of range"},
		{"high", `{"name":"a","share":1.5,"list":[]}`, false, "$.share: 1.5 is out of range"},
		{"unsigned", `{"name":"a","list":[{"count":-1}]}`, false, "$.list[0].count: -1 is out of range"},
		{"fraction", `{"name":"a","list":[{"count":1.5}]}`, false, "$.list[0].count: number, want integer"},
		{"duration", `{"name":"a","wait":"soon","list":[]}`, false, "$.wait"},
		{"map value", `{"name":"a","map":{"k":"v"},"list":[]}`, false, "$.map.k: string, want number"},
		{"new field", `{"name":"a","list":[],"new":1}`, false, ""},
		{"new field, strict", `{"name":"a","list":[],"new":1}`, true, "$: new is not in the schema"},
		{"not JSON", `{`, false, "not JSON"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := strings.Join(s.Check([]byte(tc.doc), tc.strict), "\n")
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("found %q, want %q", got, tc.want)
			}
		})
	}
}

// A pointer that is always written is null when there is nothing to say.
func TestNullAndArrays(t *testing.T) {
	s, err := (Derivation{Tag: "json"}).Of(reflect.TypeFor[struct {
		Known *float64 `json:"known"`
		Range [2]int   `json:"range"`
	}]())
	if err != nil {
		t.Fatal(err)
	}
	for doc, want := range map[string]int{`{"known":null,"range":[1,2]}`: 0, `{"known":1.5,"range":[0,0]}`: 0, `{"known":"x","range":["a",1]}`: 2, `{"range":[1,2]}`: 1} {
		if got := s.Check([]byte(doc), true); len(got) != want {
			t.Errorf("%s: %q", doc, got)
		}
	}
}

func TestClosedSchemaForbidsOthers(t *testing.T) {
	s, err := (Derivation{Tag: "json", Closed: true, AllOptional: true}).Of(reflect.TypeFor[inner]())
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Check([]byte(`{"cont":1}`), false); len(got) != 1 || len(s.Required) != 0 {
		t.Errorf("found %q, required %q", got, s.Required)
	}
}

func TestLost(t *testing.T) {
	for name, change := range map[string]struct {
		edit func(*Schema)
		want string // "" = nothing lost
	}{
		"nothing":   {func(*Schema) {}, ""},
		"a gain":    {func(s *Schema) { s.Properties["new"] = &Schema{} }, ""},
		"a field":   {func(s *Schema) { delete(s.Properties, "flag") }, "$.flag is gone"},
		"deep":      {func(s *Schema) { delete(s.Properties["list"].Items.Properties, "count") }, "$.list[].count is gone"},
		"a type":    {func(s *Schema) { s.Properties["flag"].Type = Types{"string"} }, "$.flag was [boolean]"},
		"a promise": {func(s *Schema) { s.Required = nil }, "$.name was always there"},
		"map value": {func(s *Schema) { s.Properties["map"].Others = nil }, "$.map.* is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			next := derive(t)
			change.edit(next)
			got := strings.Join(Lost(derive(t), next), "\n")
			if (change.want == "") != (got == "") || !strings.Contains(got, change.want) {
				t.Errorf("lost %q, want %q", got, change.want)
			}
		})
	}
}

func TestTypesWithoutSchema(t *testing.T) {
	for _, v := range []any{make(chan int), struct{ X func() }{}, struct {
		N int `json:"n" min:"x"`
	}{}} {
		if _, err := (Derivation{Tag: "json"}).Of(reflect.TypeOf(v)); err == nil {
			t.Errorf("%T got a schema", v)
		}
	}
	if _, err := Comments(t.TempDir()); err == nil {
		t.Error("comments of an empty folder")
	}
}
