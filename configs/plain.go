package configs

import (
	"reflect"
	"time"
)

// Plain turns a value of the configuration into what a file would hold:
// durations as text, structs as maps by their keys, keys without a value left
// away inside lists.
func Plain(v any) any {
	if d, ok := v.(time.Duration); ok {
		return d.String()
	}
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Slice:
		list := make([]any, 0, rv.Len())
		for i := range rv.Len() {
			list = append(list, Plain(rv.Index(i).Interface()))
		}
		return list
	case reflect.Struct:
		fields := map[string]any{}
		for i := range rv.NumField() {
			if f := rv.Field(i); !f.IsZero() {
				fields[rv.Type().Field(i).Tag.Get("mapstructure")] = Plain(f.Interface())
			}
		}
		return fields
	}
	return v
}
