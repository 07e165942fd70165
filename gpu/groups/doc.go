// Package groups decides which GPUs, or which cores, each replica gets: dp groups
// of tp GPUs that are alike, free, and as close to each other as the machine
// allows. It is a pure function of what package gpu has found.
//
// Reading order: plan.go (Request, Plan, and what is said when there is none),
// refuse.go (which GPU cannot be used, and why), grouping.go (which GPUs belong
// together), cores.go (the same question on a machine without GPUs).
package groups
