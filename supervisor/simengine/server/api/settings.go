package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// Dialect is a vLLM version whose wire details are played.
type Dialect string

// The dialects.
const (
	V032 Dialect = "0.32" // the default
	V026 Dialect = "0.26"
)

// Settings are what of the engine's options shows in answers; server.Options
// says what each means.
type Settings struct {
	// Served are the engine's names; the first is what replies call the model.
	Served      []string
	Dialect     Dialect
	Tokenizer   prompt.Tokenizer
	MaxModelLen int
	// Fingerprint labels every OpenAI answer; nil where it is switched off.
	Fingerprint *string

	PromptTokensDetails bool
	ForceIncludeUsage   bool
	SystemAnywhere      bool
}

// Model is what replies call the model.
func (s Settings) Model() string { return s.Served[0] }

// CheckModel refuses a model that is not served. No name is any model.
func (s Settings) CheckModel(name string) *wire.Error {
	if name == "" || slices.Contains(s.Served, name) {
		return nil
	}
	message := fmt.Sprintf("The model `%s` does not exist.", name)
	if s.Dialect == V032 {
		message += " Valid aliases: " + strings.Join(s.Served, ", ") + "."
	}
	return &wire.Error{Status: http.StatusNotFound, Type: "NotFoundError", Param: "model", Message: message}
}
