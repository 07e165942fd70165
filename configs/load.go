package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// Separator joins nested keys. It is not viper's ".", which would split model
// names such as qwen2.5-7b.
const Separator = "::"

// EnvPrefix begins the environment variables: WARDEN_LISTEN, WARDEN_ENGINE_VLLM.
const EnvPrefix = "WARDEN_"

// Source says where the configuration is read from.
type Source struct {
	// Files in rising priority; a missing one is skipped unless it is Required.
	Files []string
	// Required is the file the user named (--config); it must exist.
	Required string
	// LookupEnv is os.LookupEnv outside tests.
	LookupEnv func(string) (string, bool)
	// Flags are values given on the command line, by key.
	Flags map[string]any
}

// Loaded is a configuration and where each of its values came from.
type Loaded struct {
	Config Config
	// Origin maps each key ("engine::vllm") to "default", a file, an
	// environment variable or "flag".
	Origin map[string]string
	// Files are the files that were read, in rising priority.
	Files []string
}

// Load reads the files, then the environment, then the flags; the later wins.
// Errors name the file and line, the variable, or the key.
func Load(src Source) (Loaded, error) {
	v := viper.NewWithOptions(viper.KeyDelimiter(Separator))
	out := Loaded{Origin: map[string]string{}}
	keys := leaves(reflect.ValueOf(Default()), "")
	for _, leaf := range keys {
		v.SetDefault(leaf.key, leaf.value)
		out.Origin[leaf.key] = "default"
	}
	files := src.Files
	if src.Required != "" {
		files = append(slices.Clone(files), src.Required)
	}
	for _, file := range files {
		if err := mergeFile(v, file, file == src.Required, &out); err != nil {
			return out, err
		}
	}
	for _, leaf := range keys {
		if err := applyEnv(v, leaf, src.LookupEnv, &out); err != nil {
			return out, err
		}
		if flag, ok := src.Flags[leaf.key]; ok {
			v.Set(leaf.key, flag)
			out.Origin[leaf.key] = "flag"
		}
	}
	if err := v.UnmarshalExact(&out.Config, viper.DecodeHook(mapstructure.StringToTimeDurationHookFunc())); err != nil {
		return out, fmt.Errorf("configuration: %w", err)
	}
	return out, nil
}

// mergeFile lays one file over what was read before.
func mergeFile(v *viper.Viper, file string, required bool, out *Loaded) error {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && !required {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read the configuration: %w", err)
	}
	if err := checkKeys(file, content); err != nil {
		return err
	}
	var values map[string]any
	if err := yaml.Unmarshal(content, &values); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var probe Config
	if err := decode(values, &probe); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := v.MergeConfigMap(values); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	out.Files = append(out.Files, file)
	markOrigin(values, "", file, out.Origin)
	return nil
}

// decode checks the types of one file's values, so that an error can name the
// file rather than the merged whole.
func decode(values map[string]any, into *Config) error {
	dec, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		Result: into, ErrorUnused: true, WeaklyTypedInput: true,
		DecodeHook: mapstructure.StringToTimeDurationHookFunc(),
	})
	if err != nil {
		return err
	}
	return dec.Decode(values)
}

func markOrigin(values map[string]any, prefix, origin string, into map[string]string) {
	for k, val := range values {
		if nested, ok := val.(map[string]any); ok {
			markOrigin(nested, prefix+k+Separator, origin, into)
			continue
		}
		into[prefix+k] = origin
	}
}

// EnvName is the environment variable of a key.
func EnvName(key string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, Separator, "_"))
}

func applyEnv(v *viper.Viper, leaf leaf, lookup func(string) (string, bool), out *Loaded) error {
	if lookup == nil {
		return nil
	}
	name := EnvName(leaf.key)
	text, ok := lookup(name)
	if !ok || text == "" {
		return nil
	}
	switch leaf.value.(type) {
	case []string:
		v.Set(leaf.key, strings.Split(text, ","))
	case []Model, []Entry:
		return fmt.Errorf("%s: lists of models can only be set in a file", name)
	case time.Duration:
		if _, err := time.ParseDuration(text); err != nil {
			return fmt.Errorf("%s: %q is not a duration such as 30s", name, text)
		}
		v.Set(leaf.key, text)
	default:
		v.Set(leaf.key, text)
	}
	out.Origin[leaf.key] = name
	return nil
}

type leaf struct {
	key   string
	value any
}

// leaves lists every key of the configuration with its default.
func leaves(v reflect.Value, prefix string) []leaf {
	var found []leaf
	for i := range v.NumField() {
		key := prefix + v.Type().Field(i).Tag.Get("mapstructure")
		if field := v.Field(i); field.Kind() == reflect.Struct {
			found = append(found, leaves(field, key+Separator)...)
		} else {
			found = append(found, leaf{key, field.Interface()})
		}
	}
	return found
}

// Values lists every key and its value, in the order of the Config struct, for
// `warden config show`.
func (c Config) Values() []struct {
	Key   string
	Value any
} {
	var rows []struct {
		Key   string
		Value any
	}
	for _, l := range leaves(reflect.ValueOf(c), "") {
		rows = append(rows, struct {
			Key   string
			Value any
		}{l.key, l.value})
	}
	return rows
}
