package configs

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// KeyError names a key of a configuration file that warden does not know.
type KeyError struct {
	File    string
	Line    int
	Key     string
	Nearest string // "" when nothing is close
	Under   string // where Nearest belongs, such as "models"; "" when here
}

func (e *KeyError) Error() string {
	msg := fmt.Sprintf("%s:%d: unknown key %q", e.File, e.Line, e.Key)
	if e.Nearest != "" {
		msg += fmt.Sprintf(", did you mean %q?", e.Nearest)
		if e.Under != "" {
			msg += " It belongs " + e.Under
		}
	}
	return msg
}

// checkKeys reports the first key of the YAML document that has no field in
// Config, with its line. Viper itself passes unknown keys silently.
func checkKeys(file string, content []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(content, &doc); err != nil {
		return fmt.Errorf("%s: not valid YAML: %w", file, err)
	}
	if len(doc.Content) == 0 {
		return nil // an empty file sets nothing
	}
	return checkNode(file, doc.Content[0], reflect.TypeFor[Config]())
}

// unknownKey looks for what was meant: a key of the same section first, then
// one of another.
func unknownKey(file string, key *yaml.Node, t reflect.Type) *KeyError {
	e := &KeyError{File: file, Line: key.Line, Key: key.Value, Nearest: Nearest(key.Value, keysOf(t))}
	if e.Nearest != "" {
		return e
	}
	root := reflect.TypeFor[Config]()
	if e.Nearest = Nearest(key.Value, keysOf(root)); e.Nearest != "" {
		e.Under = "at the top level"
		return e
	}
	e.searchSections(root, t)
	return e
}

// searchSections looks for what was meant in the sections of t and in theirs, but
// not in the one where it was written.
func (e *KeyError) searchSections(t, written reflect.Type) {
	for i := range t.NumField() {
		section, fields := t.Field(i), t.Field(i).Type
		if fields.Kind() == reflect.Slice {
			fields = fields.Elem()
		}
		if fields.Kind() != reflect.Struct {
			continue
		}
		if fields != written {
			if e.Nearest = Nearest(e.Key, keysOf(fields)); e.Nearest != "" {
				e.Under = fmt.Sprintf("under %q", section.Tag.Get("mapstructure"))
				return
			}
		}
		if e.searchSections(fields, written); e.Nearest != "" {
			return
		}
	}
}

func checkNode(file string, node *yaml.Node, t reflect.Type) error {
	switch {
	case t.Kind() == reflect.Slice && node.Kind == yaml.SequenceNode:
		for _, item := range node.Content {
			if err := checkNode(file, item, t.Elem()); err != nil {
				return err
			}
		}
	case t.Kind() == reflect.Slice && node.Kind == yaml.MappingNode:
		return fmt.Errorf("%s:%d: a list is wanted here, each entry beginning with \"- \"", file, node.Line)
	case t.Kind() == reflect.Struct && node.Kind == yaml.MappingNode:
		return checkMapping(file, node, t)
	case t.Kind() == reflect.Struct && node.Kind != yaml.AliasNode:
		return fmt.Errorf("%s:%d: keys are wanted here (%s, ...)", file, node.Line, strings.Join(keysOf(t)[:1], ""))
	}
	return nil
}

func checkMapping(file string, node *yaml.Node, t reflect.Type) error {
	fields := fieldsOf(t)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		field, ok := fields[key.Value]
		if !ok {
			return unknownKey(file, key, t)
		}
		if err := checkNode(file, node.Content[i+1], field); err != nil {
			return err
		}
	}
	return nil
}

func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type, t.NumField())
	for i := range t.NumField() {
		fields[t.Field(i).Tag.Get("mapstructure")] = t.Field(i).Type
	}
	return fields
}

func keysOf(t reflect.Type) []string {
	keys := make([]string, 0, t.NumField())
	for i := range t.NumField() {
		keys = append(keys, t.Field(i).Tag.Get("mapstructure"))
	}
	return keys
}
