// Package plan decides what a start would run: which models on which GPUs, with
// which program and which settings. It looks at the machine and starts nothing.
//
// Reading order: plan.go (Models: places and specs), fits.go (can the weights
// fit?), left.go (engines that an earlier warden left, which a plan must not be
// disturbed by), tune.go (vLLM's settings for the work, and what they are decided
// by), choices.go (settings that running engines keep), detect.go.
package plan
