// Package jsonschema derives JSON schemas from Go types, checks documents
// against them and tells what a later version of one lost. It knows the part of
// JSON Schema 2020-12 that warden publishes; tests and generators use it, the
// program itself does not.
//
// Reading order: jsonschema.go (a schema), derive.go (from a Go type, with the
// comments of its source), check.go (a document, a later version).
package jsonschema

import (
	"encoding/json"
	"fmt"
)

// Draft is the dialect that Schema.Dialect names.
const Draft = "https://json-schema.org/draft/2020-12/schema"

// Schema is one schema or subschema.
type Schema struct {
	Dialect     string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        Types              `json:"type,omitempty"`
	Default     any                `json:"default,omitempty"`
	Enum        []string           `json:"enum,omitempty"`
	Pattern     string             `json:"pattern,omitempty"` // of strings, RE2
	Minimum     *float64           `json:"minimum,omitempty"` // of numbers
	Maximum     *float64           `json:"maximum,omitempty"`
	Properties  map[string]*Schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Others      *Others            `json:"additionalProperties,omitempty"`
	Items       *Schema            `json:"items,omitempty"`
}

// Types are the accepted JSON types; one is written as a string, as usual.
type Types []string

// MarshalJSON writes a single type without a list around it.
func (t Types) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// UnmarshalJSON reads a type or a list of them.
func (t *Types) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*t = Types{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(t))
}

// Others rules the properties that Properties does not name: forbidden, or of
// one schema.
type Others struct{ Schema *Schema } // nil: forbidden

// MarshalJSON writes false or the schema.
func (o Others) MarshalJSON() ([]byte, error) {
	if o.Schema == nil {
		return []byte("false"), nil
	}
	return json.Marshal(o.Schema)
}

// UnmarshalJSON reads false or a schema.
func (o *Others) UnmarshalJSON(raw []byte) error {
	switch string(raw) {
	case "false":
		return nil
	case "true":
		return fmt.Errorf("additionalProperties: leave true away, it is the default")
	}
	return json.Unmarshal(raw, &o.Schema)
}

// Encode writes the schema as it is published: indented, sorted, with a final
// newline.
func (s *Schema) Encode() ([]byte, error) {
	raw, err := json.MarshalIndent(s, "", "  ")
	return append(raw, '\n'), err
}

// Decode reads a published schema.
func Decode(raw []byte) (*Schema, error) {
	s := &Schema{}
	return s, json.Unmarshal(raw, s)
}
