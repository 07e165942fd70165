package tune

// A typical session is the conversation of the reference load at its end: a
// system prompt of 3,500 tokens that all conversations share and the cache holds
// once, and 11,000 of its own (a first message of 7,300, five turns of 400, six
// answers of 64 to 256): about 15,000 tokens of context.
const (
	TypicalShared = 3_500
	TypicalOwn    = 11_000
)

// TypicalSessions is how many typical sessions a KV cache of so many tokens
// holds at the same time.
func TypicalSessions(kvTokens int) float64 {
	return float64(max(kvTokens-TypicalShared, 0)) / TypicalOwn
}

// engineShare is vLLM's default --gpu-memory-utilization.
const engineShare = 0.92

const (
	// Activations, CUDA graphs and what the driver takes, in bytes of each GPU: about
	// 1.2 GiB on one of 16 GiB, and more where vLLM's batches are larger.
	overheadFixed = 1.2 * (1 << 30)
	overheadShare = 0.02
)

// EstimateKVTokens is about how many KV tokens a replica will have: what its
// GPUs give to vLLM without weights and overhead. It is an estimate for the time
// before the engine says it, 10 to 20 % off; 0 = not known or none.
func EstimateKVTokens(f Facts) int {
	perToken := f.KVBytes()
	for _, exact := range []string{"--kv-cache-memory-bytes", "--num-gpu-blocks-override", "--cpu-offload-gb"} {
		if _, given := f.arg(exact); given {
			return 0 // the share of the GPU does not decide
		}
	}
	if perToken == 0 || f.GPUMemory == 0 || f.WeightsBytes == 0 {
		return 0
	}
	share := f.utilization()
	room := 0.0
	for range max(f.TP, 1) {
		memory := float64(f.GPUMemory)
		room += share*memory - overheadFixed - overheadShare*memory
	}
	return max(int((room-float64(f.WeightsBytes))/float64(perToken)), 0)
}
