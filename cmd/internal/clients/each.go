package clients

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// setups add to a setup what its client needs. What they set was read off
// the wire of Claude Code 2.1.332, Codex 0.171.0 and opencode 1.18.33.
var setups = map[string]func(*Setup){
	"claude-code": claudeCodeSetup,
	"codex":       codexSetup,
	"opencode":    opencodeSetup,
}

// anyKey is sent where a client insists on a key and warden asks for none.
const anyKey = "warden"

const keyNote = "any word will do: warden asks for no key"

// answerShare of the context is set aside for an answer. Clients plan with it:
// what they may answer is not there for the history.
const answerShare = 8

// maxAnswer is what Claude Code asks for by itself; more is of no use to it.
const maxAnswer = 32000

func (e Endpoint) answerTokens() int { return min(e.ContextTokens/answerShare, maxAnswer) }

// claudePrompt is what Claude Code's own prompt and tools take of the context,
// in Qwen3's tokens; with --bare it is about a thousand.
const claudePrompt = 17000

func claudeCodeSetup(s *Setup) {
	set := func(name, value, why string) { s.Env = append(s.Env, Setting{Name: name, Value: value, Why: why}) }
	s.Notes = append(s.Notes, "For the shell; the same names in \"env\" of ~/.claude/settings.json win over it.")
	set("ANTHROPIC_BASE_URL", s.URL, "")
	if s.Keys {
		s.Env = append(s.Env, Setting{Name: "ANTHROPIC_AUTH_TOKEN", From: KeyVariable})
	} else {
		set("ANTHROPIC_AUTH_TOKEN", anyKey, keyNote)
	}
	set("ANTHROPIC_MODEL", s.Model, "")
	for i, tier := range []string{"OPUS", "SONNET", "HAIKU"} {
		why := ""
		if i == 0 {
			why = "titles, sub-agents and `/model` ask for these"
		}
		set("ANTHROPIC_DEFAULT_"+tier+"_MODEL", s.Model, why)
	}
	set("CLAUDE_CODE_SUBAGENT_MODEL", s.Model, "")
	set("CLAUDE_CODE_ATTRIBUTION_HEADER", "0", "the first line of its system prompt otherwise differs from session to session")
	set("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1", "keeps the directory out of the system prompt: sessions of all projects share its cache")
	set("CLAUDE_CODE_TOTAL_TOKENS_REMINDER", "off", "a countdown in the middle of the history, new on every turn")
	set("ENABLE_TOOL_SEARCH", "false", "all tools from the start: one that is added later changes the prompt before the history")
	set("CLAUDE_CODE_GATEWAY_HINT_HEADERS", "1", "tells warden which requests are the main loop, a sub-agent, a title or a compaction")
	set("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1", "nothing goes to anybody but warden")
	if s.ContextTokens == 0 {
		return
	}
	set("CLAUDE_CODE_MAX_CONTEXT_TOKENS", strconv.Itoa(s.ContextTokens), "it does not know the model and would assume up to a million")
	set("CLAUDE_CODE_MAX_OUTPUT_TOKENS", strconv.Itoa(s.answerTokens()), "set aside for each answer, not there for the history")
	if s.ContextTokens < 4*claudePrompt {
		s.Notes = append(s.Notes, fmt.Sprintf("Of the %d tokens of context about %d are its own prompt and tools; `claude --bare` makes do with about 1000.", s.ContextTokens, claudePrompt))
	}
}

// compactAt is the share of the context, in percent, at which Codex is to
// compact: one more answer and its tool results must still fit.
const compactAt = 80

func codexSetup(s *Setup) {
	var b strings.Builder
	line := func(key string, value any) {
		if text, ok := value.(string); ok {
			value = strconv.Quote(text)
		}
		fmt.Fprintf(&b, "%s = %v\n", key, value)
	}
	line("model", s.Model)
	line("model_provider", "warden")
	if s.ContextTokens > 0 {
		line("model_context_window", s.ContextTokens)
		b.WriteString("# it does not know the model; without this it goes on until the engine refuses\n")
		line("model_auto_compact_token_limit", s.ContextTokens*compactAt/100)
	}
	b.WriteString("# a tool of OpenAI's servers, which no engine here can run\n")
	line("web_search", "disabled")
	b.WriteString("\n[model_providers.warden]\n")
	line("name", "LM Warden")
	line("base_url", s.URL+"/v1")
	line("wire_api", "responses")
	if s.Keys {
		line("env_key", KeyVariable)
	}
	b.WriteString("\n# nothing goes to anybody but warden; where nobody else can be reached, it would wait 5 s at its end\n[analytics]\n")
	line("enabled", false)
	s.Files = append(s.Files, File{Path: ".codex/warden.config.toml", Text: b.String(), mark: "#"})
	s.Notes = append(s.Notes, "A profile beside your own configuration: `codex --profile warden`.")
}

func opencodeSetup(s *Setup) {
	type object = map[string]any
	model := object{"name": s.Model}
	s.Notes = append(s.Notes,
		"small_model: without it titles are asked of opencode's own service.",
		"The provider must not be called opencode...: only then it sends the session id that warden knows.",
	)
	key := "{env:" + KeyVariable + "}"
	if !s.Keys {
		key = anyKey
		s.Notes = append(s.Notes, "apiKey: "+keyNote+".")
	}
	if s.ContextTokens > 0 {
		model["limit"] = object{"context": s.ContextTokens, "output": s.answerTokens()}
	}
	text, err := json.MarshalIndent(object{
		"$schema":     "https://opencode.ai/config.json",
		"model":       "warden/" + s.Model,
		"small_model": "warden/" + s.Model,
		"provider": object{"warden": object{
			"npm": "@ai-sdk/openai-compatible", "name": "LM Warden",
			"options": object{"baseURL": s.URL + "/v1", "apiKey": key},
			"models":  object{s.Model: model},
		}},
	}, "", "  ")
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	s.Files = append(s.Files, File{Path: ".config/opencode/opencode.json", Text: string(text) + "\n", mark: "//"})
}
