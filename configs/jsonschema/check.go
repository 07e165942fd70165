package jsonschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
)

// Check reports everything in a JSON document that the schema does not allow,
// each with the path of the value. strict also reports properties that the
// schema does not name though it allows them.
func (s *Schema) Check(document []byte, strict bool) []string {
	var v any
	if err := json.Unmarshal(document, &v); err != nil {
		return []string{"not JSON: " + err.Error()}
	}
	c := checker{strict: strict}
	c.value("$", v, s)
	return c.found
}

type checker struct {
	strict bool
	found  []string
}

func (c *checker) report(path, format string, args ...any) {
	c.found = append(c.found, path+": "+fmt.Sprintf(format, args...))
}

func (c *checker) value(path string, v any, s *Schema) {
	if len(s.Type) > 0 && !slices.ContainsFunc(s.Type, func(t string) bool { return isA(v, t) }) {
		c.report(path, "%s, want %s", typeOf(v), strings.Join(s.Type, " or "))
		return
	}
	switch v := v.(type) {
	case string:
		c.text(path, v, s)
	case float64:
		if s.Minimum != nil && v < *s.Minimum || s.Maximum != nil && v > *s.Maximum {
			c.report(path, "%v is out of range", v)
		}
	case []any:
		for i, item := range v {
			if s.Items != nil {
				c.value(fmt.Sprintf("%s[%d]", path, i), item, s.Items)
			}
		}
	case map[string]any:
		c.object(path, v, s)
	}
}

func (c *checker) text(path, v string, s *Schema) {
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		c.report(path, "%q is not one of %v", v, s.Enum)
	}
	if s.Pattern == "" {
		return
	}
	re, err := regexp.Compile(s.Pattern)
	if err != nil {
		c.report(path, "the schema's pattern: %v", err)
	} else if !re.MatchString(v) {
		c.report(path, "%q does not match %s", v, s.Pattern)
	}
}

func (c *checker) object(path string, v map[string]any, s *Schema) {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			c.report(path, "%s is missing", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		switch sub := s.Properties[name]; {
		case sub != nil:
			c.value(path+"."+name, v[name], sub)
		case s.Others != nil && s.Others.Schema != nil:
			c.value(path+"."+name, v[name], s.Others.Schema)
		case s.Others != nil || c.strict:
			c.report(path, "%s is not in the schema", name)
		}
	}
}

func isA(v any, want string) bool {
	got := typeOf(v)
	if n, ok := v.(float64); ok && want == "integer" {
		return n == math.Trunc(n)
	}
	return got == want
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// Lost reports what readers of documents of the published schema would miss in
// those of the next one: properties that are gone or of another type, and
// promises (required) that are no longer kept.
func Lost(published, next *Schema) []string {
	var found []string
	compare("$", published, next, &found)
	return found
}

func compare(path string, old, now *Schema, found *[]string) {
	switch {
	case old == nil:
		return
	case now == nil:
		*found = append(*found, path+" is gone")
		return
	case !slices.Equal(old.Type, now.Type):
		*found = append(*found, fmt.Sprintf("%s was %v and is %v", path, old.Type, now.Type))
	}
	for _, name := range old.Required {
		if now.Properties[name] != nil && !slices.Contains(now.Required, name) {
			*found = append(*found, fmt.Sprintf("%s.%s was always there and now need not be", path, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.Properties)) {
		compare(path+"."+name, old.Properties[name], now.Properties[name], found)
	}
	compare(path+"[]", old.Items, now.Items, found)
	if old.Others != nil && old.Others.Schema != nil {
		var values *Schema
		if now.Others != nil {
			values = now.Others.Schema
		}
		compare(path+".*", old.Others.Schema, values, found)
	}
}
