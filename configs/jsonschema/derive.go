package jsonschema

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DurationPattern is what time.ParseDuration reads, without its signs.
const DurationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`

// Derivation says how a Go type becomes a schema.
type Derivation struct {
	// Tag names the struct tag that holds the property's name.
	Tag string
	// Docs are the descriptions, by "Type.Field" (see Comments).
	Docs map[string]string
	// Closed forbids properties that the type does not have.
	Closed bool
	// AllOptional requires no property; otherwise those are required whose tag
	// has neither omitempty nor omitzero.
	AllOptional bool
}

// Of derives the schema of a type. Struct tags narrow a field: oneof:"a b",
// pattern:"...", min:"1", max:"9", type:"string,integer".
func (d Derivation) Of(t reflect.Type) (*Schema, error) {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return &Schema{Type: Types{"string"}}, nil
	case t == reflect.TypeFor[time.Duration]():
		return &Schema{Type: Types{"string"}, Pattern: DurationPattern}, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.Of(t.Elem())
	case reflect.Bool:
		return &Schema{Type: Types{"boolean"}}, nil
	case reflect.String:
		return &Schema{Type: Types{"string"}}, nil
	case reflect.Int, reflect.Int32, reflect.Int64:
		return &Schema{Type: Types{"integer"}}, nil
	case reflect.Uint, reflect.Uint32, reflect.Uint64:
		return &Schema{Type: Types{"integer"}, Minimum: new(float64)}, nil
	case reflect.Float64:
		return &Schema{Type: Types{"number"}}, nil
	case reflect.Slice, reflect.Array:
		items, err := d.Of(t.Elem())
		return &Schema{Type: Types{"array"}, Items: items}, err
	case reflect.Map:
		values, err := d.Of(t.Elem())
		return &Schema{Type: Types{"object"}, Others: &Others{values}}, err
	case reflect.Struct:
		return d.object(t)
	}
	return nil, fmt.Errorf("no schema for %v", t)
}

func (d Derivation) object(t reflect.Type) (*Schema, error) {
	s := &Schema{Type: Types{"object"}, Properties: map[string]*Schema{}}
	if d.Closed {
		s.Others = &Others{}
	}
	for i := range t.NumField() {
		field := t.Field(i)
		name, rest, _ := strings.Cut(field.Tag.Get(d.Tag), ",")
		if name == "-" || !field.IsExported() {
			continue
		}
		if name == "" {
			return nil, fmt.Errorf("%v.%s has no %s tag", t, field.Name, d.Tag)
		}
		sub, err := d.Of(field.Type)
		if err != nil {
			return nil, fmt.Errorf("%v.%s: %w", t, field.Name, err)
		}
		if err := narrow(sub, field.Tag); err != nil {
			return nil, fmt.Errorf("%v.%s: %w", t, field.Name, err)
		}
		optional := strings.Contains(rest, "omit")
		if field.Type.Kind() == reflect.Pointer && !optional { // nothing is written as null
			sub.Type = append(sub.Type, "null")
		}
		sub.Description = d.Docs[t.Name()+"."+field.Name]
		s.Properties[name] = sub
		if !d.AllOptional && !optional {
			s.Required = append(s.Required, name)
		}
	}
	slices.Sort(s.Required)
	return s, nil
}

func narrow(s *Schema, tag reflect.StructTag) error {
	if v, ok := tag.Lookup("type"); ok {
		s.Type = strings.Split(v, ",")
	}
	if v, ok := tag.Lookup("oneof"); ok {
		s.Enum = strings.Fields(v)
	}
	if v, ok := tag.Lookup("pattern"); ok {
		s.Pattern = v
	}
	for key, bound := range map[string]**float64{"min": &s.Minimum, "max": &s.Maximum} {
		v, ok := tag.Lookup(key)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return fmt.Errorf("%s:%q: %w", key, v, err)
		}
		*bound = &n
	}
	return nil
}

// Comments reads the comments of all struct fields in a folder of Go source, by
// "Type.Field", so that a schema says what the source says.
func Comments(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err == nil && len(files) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("reading Go source in %s: %w", dir, err)
	}
	docs := map[string]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if st, ok := spec.Type.(*ast.StructType); ok {
				addFields(docs, spec.Name.Name, st)
			}
			return true
		})
	}
	return docs, nil
}

func addFields(docs map[string]string, typeName string, st *ast.StructType) {
	for _, field := range st.Fields.List {
		text := field.Doc.Text()
		if text == "" {
			text = field.Comment.Text()
		}
		text = strings.Join(strings.Fields(text), " ")
		for _, name := range field.Names {
			if text != "" {
				docs[typeName+"."+name.Name] = text
			}
		}
	}
}
