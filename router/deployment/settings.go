package deployment

import (
	"fmt"
	"slices"
	"time"

	"github.com/lm-warden/warden/router/mends"
	"github.com/lm-warden/warden/router/placement"
)

// Model is one model that replicas serve.
type Model struct {
	// Alias is its short name and its identity here; Repo and Aliases are
	// further names that its replicas answer to.
	Alias, Repo string
	Aliases     []string
	// OwnedBy is shown by /v1/models. Default "vllm".
	OwnedBy string
	// Placement is the policy, its spill limit and the other knobs.
	Placement placement.Config
	// ExactStreams never asks an engine for the usage chunk that a client did
	// not ask for; OpenAI streams without it are then not measured.
	ExactStreams bool
	// ExactErrors passes an engine's refusal of a too long prompt on in the
	// engine's words, on which clients cannot act.
	ExactErrors bool
	// ExactUsage passes token counts on to Anthropic clients as an engine states
	// them: see dialect.MendUsage. With ExactStreams those of streams are anyhow.
	ExactUsage bool
	// EnginePriority sends each turn with the priority of what it costs: its
	// engines were started with --scheduling-policy priority.
	EnginePriority bool
	// SystemTurns says what becomes of system messages inside a history.
	SystemTurns mends.SystemTurns
}

// Names are all names of the model, its alias first.
func (m *Model) Names() []string {
	all := []string{m.Alias}
	for _, n := range append([]string{m.Repo}, m.Aliases...) {
		if n != "" && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// Model returns a copy of the model's settings, as they are now.
func (d *Deployment) Model() Model {
	d.mu.Lock()
	defer d.unlock()
	return d.model
}

// Configure applies settings; conversations stay known.
func (d *Deployment) Configure(m Model) {
	d.mu.Lock()
	defer d.unlock()
	d.model = m
	d.affine = placement.PolicyAffinity
	if p := m.Placement.Policy; p != "" && p != placement.PolicyBalance {
		d.affine = p
	}
	d.step(placement.Configure{Config: m.Placement})
}

// SetAffinity turns conversation affinity on or off, and returns the policy before
// and after.
func (d *Deployment) SetAffinity(on bool) (before, after string) {
	d.change(func() {
		before = d.policy()
		after = placement.PolicyBalance
		if on {
			after = d.affine
		}
		d.model.Placement.Policy = after
		word := map[bool]string{true: "on", false: "off"}[on]
		d.tell("affinity", "", "affinity turned "+word, map[string]string{"before": before, "after": after})
	})
	return before, after
}

// SetPolicy sets one of placement.Policies and returns the one before. If it keeps
// conversations where they are, "on" means it from now on.
func (d *Deployment) SetPolicy(policy string) (before string) {
	d.change(func() {
		before = d.policy()
		d.model.Placement.Policy = policy
		if policy != placement.PolicyBalance {
			d.affine = policy
		}
		d.tell("affinity", "", "placement policy is "+policy, map[string]string{"before": before, "after": policy})
	})
	return before
}

// SetSpillLimit changes the spill limit; 0 is a quarter of each replica's
// max-num-seqs.
func (d *Deployment) SetSpillLimit(limit int) (before int) {
	d.change(func() {
		before = d.model.Placement.SpillLimit
		d.model.Placement.SpillLimit = limit
		text := fmt.Sprintf("spill limit set to %d", limit)
		if limit == 0 {
			text = "spill limit set to automatic"
		}
		d.tell("affinity", "", text, map[string]string{"spill_limit": fmt.Sprint(limit)})
	})
	return before
}

// policy is the name of the one in force. The lock is held.
func (d *Deployment) policy() string { return d.placer.ViewLatest(time.Now(), 0).Policy }

// change edits the placement settings under the lock.
func (d *Deployment) change(edit func()) {
	d.mu.Lock()
	defer d.unlock()
	edit()
	d.step(placement.Configure{Config: d.model.Placement})
}
