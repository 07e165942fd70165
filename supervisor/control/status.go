package control

import "time"

// Schema is the version of the wire types. It grows only when a field changes its meaning or goes away.
const Schema = 1

// Daemon states in Status.State.
const (
	DaemonStarting = "starting" // no replica answers yet
	DaemonServing  = "serving"  // at least one replica answers
	DaemonStopping = "stopping" // a shutdown was ordered; held requests finish
	DaemonFailed   = "failed"   // every replica gave up
)

// Replica states in Replica.State, as the supervisor names them.
const (
	StatePending    = "pending"
	StateWaitingGPU = "waiting_gpu"
	StateStarting   = "starting"
	StateWarming    = "warming"
	StateReady      = "ready"
	StateSuspect    = "suspect"
	StateDraining   = "draining"
	StateStopping   = "stopping"
	StateStopped    = "stopped"
	StateBackoff    = "backoff"
	StateParked     = "parked"
	StateStuck      = "stuck"
)

// Placement policies in Model.Policy.
const (
	PolicyBalance   = "balance"   // affinity off: least loaded each time
	PolicyAffinity  = "affinity"  // sticky, count-based spill limit
	PolicyAdmission = "admission" // affinity plus a working set that fits the KV cache
)

// Status is everything the daemon knows, at one moment.
type Status struct {
	Schema    int       `json:"schema"`
	Version   string    `json:"version"`
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`
	Now       time.Time `json:"now"`
	Listen    string    `json:"listen,omitempty"` // "http://127.0.0.1:8000"
	Simulated bool      `json:"simulated"`        // engines are simulated: no figure here was measured on a GPU
	State     string    `json:"state"`
	Models    []Model   `json:"models"`
	Replicas  []Replica `json:"replicas"`
	GPUs      []GPU     `json:"gpus"`
	GPUNote   string    `json:"gpu_note,omitempty"` // why GPU figures are missing
	Hold      *Hold     `json:"hold,omitempty"`     // why no engine can start now; absent while they can
	Access    *Access   `json:"access,omitempty"`   // absent when everybody may come in, without TLS
	LogDir    string    `json:"log_dir,omitempty"`
	Totals    Totals    `json:"totals"`
}

// Access says who may use the API, and how it is protected.
type Access struct {
	Keys []Key `json:"keys"`
	TLS  *TLS  `json:"tls,omitempty"`
	// Problem is why a changed key file or certificate does not count; what was read before does.
	Problem string `json:"problem,omitempty"`
}

// Key is one API key. Neither it nor its hash is ever told.
type Key struct {
	Name        string `json:"name"` // where it has none: the first 8 digits of its hash
	Scope       string `json:"scope"`
	InFlight    int    `json:"in_flight"`               // requests
	MaxInFlight int    `json:"max_in_flight,omitempty"` // 0: no limit
}

// TLS is what the API is served with.
type TLS struct {
	Certificate string    `json:"certificate"` // its file
	Expires     time.Time `json:"expires"`
}

// Hold says why no engine is started: the driver would refuse it. Engines that run go on.
type Hold struct {
	Cause string    `json:"cause"`
	Fix   string    `json:"fix,omitempty"`
	Since time.Time `json:"since"`
}

// Model is one model that the daemon serves.
type Model struct {
	Alias       string `json:"alias"`
	Repo        string `json:"repo"`
	DType       string `json:"dtype,omitempty"`
	DP          int    `json:"dp"`
	TP          int    `json:"tp"`
	Device      string `json:"device"` // cuda, cpu, simulated
	Policy      string `json:"policy"` // balance, affinity, admission
	Affinity    bool   `json:"affinity"`
	SpillLimit  int    `json:"spill_limit"` // requests in flight per replica above which turns spill
	SpillAuto   bool   `json:"spill_auto"`  // the limit was derived: max_num_seqs / 4
	MaxNumSeqs  int    `json:"max_num_seqs,omitempty"`
	MaxModelLen int    `json:"max_model_len,omitempty"` // tokens

	Settings         []Setting  `json:"settings,omitempty"` // of its engines
	KVOffload        *KVOffload `json:"kv_offload,omitempty"`
	KVEstimateTokens int        `json:"kv_estimate_tokens,omitempty"` // KV cache of a replica, estimated before its start
	TypicalSessions  float64    `json:"typical_sessions,omitempty"`   // that the KV cache of one replica holds: 3,500 tokens of shared prompt, 11,000 of each one's own
	KVTokenBytes     int        `json:"kv_token_bytes,omitempty"`     // KV cache of one token, over all GPUs of a replica
	WeightsBytes     uint64     `json:"weights_bytes,omitempty"`      // of one replica, over all its GPUs
	FP8KV            string     `json:"fp8_kv,omitempty"`             // whether a KV cache of 8 bits suits the GPUs: good, measure (another attention kernel takes over), no; absent when not known

	SessionsLive    int                `json:"sessions_live"`
	SessionsSeen    uint64             `json:"sessions_seen"`
	Placements      map[string]uint64  `json:"placements,omitempty"`         // by reason, since start
	HitRateByReason map[string]float64 `json:"hit_rate_by_reason,omitempty"` // 0-1, since start
	HomesLost       uint64             `json:"homes_lost"`                   // homes that a restart emptied
	PrefixBreaks    map[string]uint64  `json:"prefix_breaks,omitempty"`      // sessions whose cached prefix broke, by cause
	Queue           []Queued           `json:"queue,omitempty"`
}

// Queued is a turn that waits for a replica.
type Queued struct {
	Session  string    `json:"session"`
	Position int       `json:"position"` // 1 is next
	Why      string    `json:"why"`
	Since    time.Time `json:"since"`
}

// Replica is one engine on one GPU group.
type Replica struct {
	ID              string    `json:"id"`
	Model           string    `json:"model"` // the alias
	State           string    `json:"state"`
	Note            string    `json:"note,omitempty"`
	Phase           *Phase    `json:"phase,omitempty"` // while starting
	Since           time.Time `json:"since,omitzero"`  // when State began
	StartedAt       time.Time `json:"started_at,omitzero"`
	ReadyAt         time.Time `json:"ready_at,omitzero"`
	EstimateSeconds *float64  `json:"estimate_seconds,omitempty"` // how long the last start of this model took
	Generation      uint64    `json:"generation"`
	Restarts        int       `json:"restarts"`
	PID             int       `json:"pid,omitempty"`
	NextRetry       time.Time `json:"next_retry,omitzero"`
	GPUs            []int     `json:"gpus,omitempty"` // indices into nvidia-smi's order by PCI bus
	CPUs            []int     `json:"cpus,omitempty"`

	Held            int    `json:"held"` // placed here, last byte not sent
	StickySessions  int    `json:"sticky_sessions"`
	SpilledSessions int    `json:"spilled_sessions"`
	RequestsTotal   uint64 `json:"requests_total"`
	ErrorsTotal     uint64 `json:"errors_total"`
	SessionTokens   int    `json:"session_tokens"`    // tokens of the sessions of the last 10 min whose home is here
	Sessions2m      int    `json:"sessions_2m"`       // sessions with a turn in the last 2 min whose home is here
	SessionTokens2m int    `json:"session_tokens_2m"` // and their tokens: what the KV cache needs now

	Engine       *Engine       `json:"engine,omitempty"` // absent before the first scrape
	TTFT         *Quantiles    `json:"ttft_seconds,omitempty"`
	PromptTokens *PromptTokens `json:"prompt_tokens,omitempty"`
	Diagnosis    *Diagnosis    `json:"diagnosis,omitempty"`
	Sessions     []Session     `json:"sessions,omitempty"`
}

// Phase is the start-up step a replica is in. Done of Total is 0 of 0 where the step has no count.
type Phase struct {
	Name   string `json:"name"` // spawn, weights, compile, profile, graphs, serve
	Detail string `json:"detail,omitempty"`
	Done   int    `json:"done,omitempty"`
	Total  int    `json:"total,omitempty"`
}

// Engine holds what the engine says about itself, with its age.
type Engine struct {
	At                     time.Time `json:"at"`
	AgeSeconds             float64   `json:"age_seconds"`
	Stale                  bool      `json:"stale"` // older than 3 scrapes: decides nothing, drawn dim
	Running                int       `json:"running"`
	Waiting                int       `json:"waiting"`
	KVUsed                 float64   `json:"kv_used"` // 0-1, blocks of running requests; not how full the prefix cache is
	KVCapacityTokens       int       `json:"kv_capacity_tokens,omitempty"`
	Preemptions60s         *uint64   `json:"preemptions_60s,omitempty"`
	PrefillTokensPerSecond *float64  `json:"prefill_tokens_per_second,omitempty"` // prompt tokens computed, without hits
	DecodeTokensPerSecond  *float64  `json:"decode_tokens_per_second,omitempty"`
	HitRate60s             *float64  `json:"hit_rate_60s,omitempty"` // hit tokens / queried tokens; absent with no queries
	HostTier               *HostTier `json:"host_tier,omitempty"`    // absent without a second tier
}

// Quantiles of a time in seconds over the last 60 s, from merged buckets.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// PromptTokens splits prompt tokens into those read from the prefix cache, as the engine measured for each finished
// request, and those computed. A request that the engine did not measure counts as computed.
type PromptTokens struct {
	CachedPerSecond   float64  `json:"cached_per_second"`
	ComputedPerSecond float64  `json:"computed_per_second"`
	CachedTotal       uint64   `json:"cached_total"`
	ComputedTotal     uint64   `json:"computed_total"`
	CachedShareHour   *float64 `json:"cached_share_hour,omitempty"` // 0-1, last hour; absent with no tokens
}

// Diagnosis says why a replica failed and what mends it.
type Diagnosis struct {
	Cause string `json:"cause"`
	Fix   string `json:"fix,omitempty"`
	Line  string `json:"line,omitempty"` // the log line that says so
}

// Session is one conversation; its id is a prefix of a hash, never what the client sent.
type Session struct {
	ID          string    `json:"id"`
	Client      string    `json:"client,omitempty"`
	Turns       int       `json:"turns"`
	Tokens      int       `json:"tokens"`
	LastSeen    time.Time `json:"last_seen"`
	CachedShare *float64  `json:"cached_share,omitempty"` // 0-1, over all measured turns
	Home        string    `json:"home"`                   // differs from the replica that lists it when it spilled here
	State       string    `json:"state"`                  // idle, waiting, prefill, decode
	Reason      string    `json:"reason,omitempty"`       // of the last placement
	Class       string    `json:"class,omitempty"`        // main, subagent, compaction
	Parent      string    `json:"parent,omitempty"`       // the session that started this one
	Spills      int       `json:"spills,omitempty"`       // turns served away from home

	LastPromptTokens *int         `json:"last_prompt_tokens,omitempty"` // of the latest answered turn, as the engine measured
	LastCachedTokens *int         `json:"last_cached_tokens,omitempty"` // of those, from the prefix cache
	Break            *PrefixBreak `json:"break,omitempty"`              // absent while its prefix holds
}

// PrefixBreak says why a session's cached prefix stopped matching.
type PrefixBreak struct {
	Cause string    `json:"cause"` // system_date, system_turns, tools, ...
	Text  string    `json:"text"`
	Fix   string    `json:"fix,omitempty"`
	At    time.Time `json:"at"`
}

// GPU is one device as NVML sees it.
type GPU struct {
	Index             int      `json:"index"`
	UUID              string   `json:"uuid"`
	Name              string   `json:"name"`
	MemoryUsedBytes   *uint64  `json:"memory_used_bytes,omitempty"`
	MemoryTotalBytes  *uint64  `json:"memory_total_bytes,omitempty"`
	Utilization       *float64 `json:"utilization,omitempty"` // 0-1
	PowerWatts        *float64 `json:"power_watts,omitempty"`
	TemperatureC      *float64 `json:"temperature_celsius,omitempty"`
	Throttled         []string `json:"throttled,omitempty"` // reasons, in words
	Replica           string   `json:"replica,omitempty"`
	SampleAgeSeconds  *float64 `json:"sample_age_seconds,omitempty"`
	UnavailableReason string   `json:"unavailable_reason,omitempty"`
	UnavailableFix    string   `json:"unavailable_fix,omitempty"`

	Aside *Aside            `json:"aside,omitempty"` // absent while the GPU is used
	XIDs  map[string]uint64 `json:"xids,omitempty"`  // faults that the driver reported since warden started, by XID code
}

// Aside says why a GPU is not used any more, and what makes it usable again.
type Aside struct {
	Cause string    `json:"cause"`
	Fix   string    `json:"fix,omitempty"`
	Since time.Time `json:"since"`
}

// Totals sums over all replicas and models.
type Totals struct {
	RequestsPerSecond      *float64           `json:"requests_per_second,omitempty"`
	Requests               uint64             `json:"requests"`
	Errors                 uint64             `json:"errors"`
	Retried                uint64             `json:"retried"` // attempts on another replica before the first byte
	Held                   int                `json:"held"`
	PrefillTokensPerSecond *float64           `json:"prefill_tokens_per_second,omitempty"`
	DecodeTokensPerSecond  *float64           `json:"decode_tokens_per_second,omitempty"`
	HitRate60s             *float64           `json:"hit_rate_60s,omitempty"`
	TTFT                   *Quantiles         `json:"ttft_seconds,omitempty"` // merged over replicas
	SessionsLive           int                `json:"sessions_live"`
	SessionsSeen           uint64             `json:"sessions_seen"`
	Placements             map[string]uint64  `json:"placements,omitempty"`
	HitRateByReason        map[string]float64 `json:"hit_rate_by_reason,omitempty"`
	HomesLost              uint64             `json:"homes_lost"`
	PromptTokens           *PromptTokens      `json:"prompt_tokens,omitempty"`
	EventsDropped          uint64             `json:"events_dropped"`
}

// Count returns how many replicas are in one of the states.
func (s Status) Count(states ...string) int {
	n := 0
	for _, r := range s.Replicas {
		for _, state := range states {
			if r.State == state {
				n++
			}
		}
	}
	return n
}
