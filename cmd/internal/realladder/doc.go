// Package realladder is the ladder on real vLLM: the reference load with all
// lengths divided by four on two replicas of the CPU build, played through
// warden's policies and through other routers, on the same engines in the same
// hour. Next to each measured cell stands the simulated one, on engines that
// were given this machine's measured rates.
//
// Reading order:
//
//	run.go        Options, Run: what is measured in which order
//	bed.go        the two engines, which warden starts and every arm shares
//	arms.go       what is compared: warden's policies, vLLM's own balancer
//	peers.go      HAProxy, vllm-router, smg: their policies (how they start: cmd/internal/proxies)
//	talk.go       answers that can be replayed token by token
//	rates.go      what this machine's engines cost, measured; fit.go: the fit
//	simulate.go   the same cells in virtual time; gauges.go: what routers see of their engines
//	again.go      several runs in one report, simulated anew
//	report.go     medians, comparisons, Markdown and JSON
//	tables.go     the Markdown
//	versions.go   what takes part
//
// # What is fair
//
// All arms but vLLM's own balancer use the very same two engine processes, one
// per half of the cores. Each cell starts its router anew, so that none brings
// knowledge along, and its conversations are its own, so that none finds what
// another left in a cache. The order turns round every round. warden itself is
// not there while others are measured: its engines outlive it.
package realladder
