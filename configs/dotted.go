package configs

import "strings"

// Dotted is a key the way people write it: engine.vllm.
func Dotted(key string) string { return strings.ReplaceAll(key, Separator, ".") }
