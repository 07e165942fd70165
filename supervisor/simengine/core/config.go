package core

import (
	"fmt"
	"time"
)

// Token is one token id. The scheduler only compares and hashes tokens; what
// they mean is the tokenizer's business.
type Token uint64

// ID names a request for as long as it lives; the caller chooses it.
type ID uint64

// Config describes one replica. The zero value is a small instant engine with
// vLLM's defaults.
type Config struct {
	// BlockSize is the number of tokens in one KV block; 0 means 16, vLLM's
	// default on CUDA.
	BlockSize int
	// Blocks is the number of KV blocks (num_gpu_blocks). vLLM keeps one as a
	// placeholder and never hands it out, so Blocks-1 are usable. 0 means 2500.
	Blocks int
	// MaxNumSeqs bounds the running requests; 0 means 256.
	MaxNumSeqs int
	// MaxBatchedTokens bounds the tokens computed in one step; 0 means 2048.
	MaxBatchedTokens int
	// MaxModelLen bounds prompt plus answer, in tokens; 0 means as many as fit
	// the KV blocks.
	MaxModelLen int
	// LongPrefillThreshold caps one prefill's share of a step while other
	// requests exist; 0 means no cap (--long-prefill-token-threshold).
	LongPrefillThreshold int
	// ChunkOnlyAdmission admits a request when its first chunk fits instead of
	// its whole prompt (--no-scheduler-reserve-full-isl).
	ChunkOnlyAdmission bool
	// NoPrefixCache switches prefix caching off (--no-enable-prefix-caching).
	NoPrefixCache bool
	// Priority orders waiting requests by (priority, arrival) and preempts the
	// largest (--scheduling-policy priority). False is first come, first served.
	Priority bool
	// Watermark is the share of blocks (0 to 1) kept free when a waiting
	// request is admitted next to running ones.
	Watermark float64
	// Host is the second tier; its zero value switches it off.
	Host Host
	// Cost prices each step; its zero value makes steps take no time.
	Cost Cost
}

// Defaults of vLLM 0.32 on GPUs below 70 GiB (arg_utils.get_batch_defaults).
const (
	defaultBlockSize   = 16
	defaultBlocks      = 2500
	defaultMaxNumSeqs  = 256
	defaultBatchTokens = 2048
)

func (c Config) withDefaults() Config {
	if c.BlockSize == 0 {
		c.BlockSize = defaultBlockSize
	}
	if c.Blocks == 0 {
		c.Blocks = defaultBlocks
	}
	if c.MaxNumSeqs == 0 {
		c.MaxNumSeqs = defaultMaxNumSeqs
	}
	if c.MaxBatchedTokens == 0 {
		c.MaxBatchedTokens = defaultBatchTokens
	}
	if c.MaxModelLen == 0 {
		c.MaxModelLen = c.Capacity()
	}
	return c
}

// Capacity is the number of tokens that the usable blocks hold.
func (c Config) Capacity() int { return max(c.Blocks-1, 0) * c.BlockSize }

func (c Config) validate() error {
	switch {
	case c.BlockSize < 1 || c.Blocks < 2 || c.MaxNumSeqs < 1 || c.MaxBatchedTokens < 1:
		return fmt.Errorf("block size %d, blocks %d, max-num-seqs %d and max-num-batched-tokens %d must be positive, with at least 2 blocks",
			c.BlockSize, c.Blocks, c.MaxNumSeqs, c.MaxBatchedTokens)
	case c.MaxModelLen < 1 || c.MaxModelLen > c.Capacity():
		return fmt.Errorf("max-model-len %d is outside 1 to %d, the tokens that %d blocks of %d hold; lower it or give more blocks",
			c.MaxModelLen, c.Capacity(), c.Blocks, c.BlockSize)
	case c.Watermark < 0 || c.Watermark >= 1:
		return fmt.Errorf("watermark %v is outside 0 to 1", c.Watermark)
	}
	return c.Host.validate()
}

// Request is what a client asked for. Its answer is decided beforehand: the
// simulation is about when tokens come, not which.
type Request struct {
	ID     ID
	Prompt []Token
	// Answer holds the tokens that the model would emit, the end-of-sequence
	// token included. It is cut at MaxTokens or the context length.
	Answer []Token
	// Endless says that Answer has no end of its own (ignore_eos): the request
	// then always ends with Length.
	Endless bool
	// MaxTokens bounds the answer; 0 means the whole Answer.
	MaxTokens int
	// Priority matters under Config.Priority only; lower runs first.
	Priority int
	// Salt separates caches: requests share blocks only with equal salts.
	Salt string
}

// FinishReason says why an answer ended, in vLLM's words.
type FinishReason string

// The reasons that a request of this engine can end with.
const (
	Unfinished FinishReason = ""
	Stop       FinishReason = "stop"   // the answer's last token was emitted
	Length     FinishReason = "length" // MaxTokens or the context length was reached
)

// TokenEvent is one emitted token.
type TokenEvent struct {
	ID     ID
	Token  Token
	Index  int          // position in the answer, from 0
	Reason FinishReason // set on the request's last event
	// Prefill is set on a request's first event only.
	Prefill *Prefill
	// Timing is set on a request's last event only.
	Timing *Timing
}

// Prefill says where a prompt's tokens came from, as of the first admission.
type Prefill struct {
	Prompt  int // tokens in the prompt
	Local   int // read from this replica's KV blocks
	Host    int // loaded from the host tier
	Created int // computed and registered in the prefix cache
}

// Cached is the number of prompt tokens that were not computed.
func (p Prefill) Cached() int { return p.Local + p.Host }

// Timing holds a request's milestones, for latency histograms.
type Timing struct {
	Queued, Scheduled, First, Last time.Time
	Preemptions                    int
}
