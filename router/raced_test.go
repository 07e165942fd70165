//go:build race

package router

// raced: the race detector makes everything larger.
const raced = true
