package agreement

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/tidwall/gjson"
)

// Outcome is what an engine says of one turn, in tokens. Created counts what
// was newly put into the prefix cache; it is -1 where the API does not tell.
type Outcome struct {
	Prompt, Cached, Created, Output int
	Finish, Text                    string
}

// Ask sends a turn to the engine at base.
func Ask(ctx context.Context, client *http.Client, base string, t Turn) (Outcome, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+t.Path, bytes.NewReader(t.Body))
	if err != nil {
		return Outcome{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		return Outcome{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return Outcome{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return Outcome{}, fmt.Errorf("turn %d (%s): %s: %s", t.N, t.Kind, resp.Status, raw)
	}
	answer := gjson.ParseBytes(raw)
	usage, choice := answer.Get("usage"), answer.Get("choices.0")
	cached := usage.Get("prompt_tokens_details.cached_tokens")
	if !cached.Exists() {
		return Outcome{}, fmt.Errorf("turn %d (%s): no cached tokens in the usage: %s", t.N, t.Kind, usage.Raw)
	}
	out := Outcome{
		Prompt: int(usage.Get("prompt_tokens").Int()), Cached: int(cached.Int()), Created: -1,
		Output: int(usage.Get("completion_tokens").Int()), Finish: choice.Get("finish_reason").String(),
		Text: choice.Get("message.content").String() + choice.Get("text").String(),
	}
	if created := usage.Get("prompt_tokens_details.created_cache_tokens"); created.Type == gjson.Number {
		out.Created = int(created.Int())
	}
	return out, nil
}
