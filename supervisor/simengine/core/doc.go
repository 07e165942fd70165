// Package core is the part of the simulated engine that decides: vLLM V1's
// scheduler and prefix cache, step by step, with a price on each step. It has
// no goroutine, no clock, no lock and no I/O; whoever drives it says what time
// it is. The same code therefore runs behind real sockets in `warden up
// --demo`, and in virtual time in the placement tests.
//
// Reading order:
//
//	config.go     what a replica is: blocks, limits, policy; what a request is
//	scheduler.go  Add, Abort, Step: the life of a request
//	plan.go       who runs in the next step (vllm/v1/core/sched/scheduler.py, schedule)
//	commit.go     what the step produced (update_from_output)
//	alloc.go      room for a request (kv_cache_manager.py, allocate_slots)
//	pool.go       KV blocks: references, hashes, LRU free list (block_pool.py)
//	hash.go       the hash chain over a request's tokens
//	host.go       the optional second tier in host memory (v1/kv_offload)
//	cost.go       how long a step takes
//	profile.go    measured machines as data
//
// It follows the source of vLLM 0.32.0 for full-attention models without
// speculative decoding, LoRA or multi-modal inputs. Two deliberate
// simplifications: steps are synchronous (vLLM's asynchronous scheduling plans
// one step ahead, which frees a finished request's blocks one step later), and
// block hashes are 64 bits wide.
//
// Evidence: 1,200 random turns (shared system prompts, forks, eviction with 100
// blocks of 32) sent one after the other to vLLM 0.32.0's CPU build and to this
// engine with the byte tokenizer. On 1,199 of them both gave equal prompt,
// cached, created and answer tokens, finish reasons and texts. The other, turn
// 485, found one block of 32 tokens less in vLLM's cache, because of turn 482,
// which a stop string ended: vLLM looks for stop strings outside its scheduler
// and aborts, so it went on for one more token, and that took a KV block; this
// engine ends exactly at the string. With turn 482 run on by one token here as
// well, all 1,200 turns and the counters at the end are equal. How far vLLM runs
// on depends on timing, so another run may have more or fewer such turns;
// cmd/internal/agreement plays them and explains each.
// load_test.go holds the reference load against an earlier simulation of the
// same machine. Not compared yet: timing of concurrent requests, and the host
// tier, which the CPU build lacks.
package core
