package control

// Who decided a Setting.
const (
	ByUser   = "user"   // an engine argument, or configured
	ByWarden = "warden" // chosen for the work, passed to vLLM
	ByVLLM   = "vllm"   // left at vLLM's own default
)

// Setting is one of vLLM's arguments, with why it is what it is.
type Setting struct {
	Flag   string `json:"flag"`
	Value  string `json:"value"`
	By     string `json:"by"` // user, warden, vllm
	Reason string `json:"reason"`
}

// KVOffload is the KV cache's second tier in host memory, as it was decided before the start.
type KVOffload struct {
	GiB         float64 `json:"gib"`                    // of one replica; 0 = off
	Tokens      int     `json:"tokens,omitempty"`       // that it holds; absent when off or not known
	Reason      string  `json:"reason"`                 // why it is so large, or off
	Warning     string  `json:"warning,omitempty"`      // what speaks against a tier, asked for or switched off
	PossibleGiB float64 `json:"possible_gib,omitempty"` // that the memory would allow each replica

	ConfiguredOff bool `json:"configured_off,omitempty"`
}

// HostTier is what the engine says about its second tier. Counters are since the engine's start.
type HostTier struct {
	CapacityTokens int      `json:"capacity_tokens,omitempty"`
	QueriedTokens  uint64   `json:"queried_tokens"` // prompt tokens that the GPU's own cache did not have
	HitTokens      uint64   `json:"hit_tokens"`     // of those, loaded from host memory
	HitRate60s     *float64 `json:"hit_rate_60s,omitempty"`
}
