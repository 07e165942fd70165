package names

import "testing"

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"qwen3-4", "qwen3-4b", 1}, {"kitten", "sitting", 3}, {"abc", "cab", 2}} {
		if got := editDistance(c.a, c.b); got != c.want || editDistance(c.b, c.a) != got {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestClosest(t *testing.T) {
	known := []string{"qwen3-4b", "gemma"}
	for name, want := range map[string]string{"qwen3-4": "qwen3-4b", "Gemma2": "gemma", "claude-haiku-4": "", "": ""} {
		if got := Closest(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
