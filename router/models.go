package router

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lm-warden/warden/router/mends"
	"github.com/lm-warden/warden/router/names"
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

func (m *Model) names() []string {
	all := []string{m.Alias}
	for _, n := range append([]string{m.Repo}, m.Aliases...) {
		if n != "" && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// catalog is an immutable set of models; SetModels replaces it.
type catalog struct {
	deployments []*deployment // in the order given
	byName      map[string]*deployment
}

// SetModels replaces the set of models. A model whose alias stays keeps its
// replicas and conversations; turns that wait for one that goes are refused.
// It refuses names that two models claim.
func (r *Router) SetModels(models []Model) error {
	r.changes.Lock()
	defer r.changes.Unlock()
	old, next := r.models.Load(), &catalog{byName: map[string]*deployment{}}
	for _, m := range models {
		if err := m.SystemTurns.Check(); err != nil {
			return fmt.Errorf("model %q: %w", m.Alias, err)
		}
		for _, name := range m.names() {
			if other := next.byName[name]; other != nil {
				return fmt.Errorf("models %q and %q both claim the name %q", other.alias, m.Alias, name)
			}
		}
		d := old.alias(m.Alias)
		if d == nil {
			d = newDeployment(r, m)
		}
		next.deployments = append(next.deployments, d)
		for _, name := range m.names() {
			next.byName[name] = d
		}
	}
	for i, m := range models {
		next.deployments[i].configure(m)
	}
	r.models.Store(next)
	for _, d := range old.deployments {
		if next.alias(d.alias) == nil {
			d.shut()
		}
	}
	return nil
}

func (c *catalog) alias(alias string) *deployment {
	for _, d := range c.deployments {
		if d.alias == alias {
			return d
		}
	}
	return nil
}

// find returns the model that name means. rename says that its replicas do
// not know that name: agents ask for names of their own, such as claude-*,
// and get the only model there is unless names are strict.
func (c *catalog) find(name string, strict bool) (d *deployment, rename bool, refused *refusal) {
	if d := c.byName[name]; d != nil {
		return d, false, nil
	}
	if len(c.deployments) == 0 {
		r := forbid(http.StatusServiceUnavailable, "warden has no models yet")
		r.retryAfter = 5 * time.Second
		return nil, false, r
	}
	if len(c.deployments) == 1 && !strict {
		return c.deployments[0], name != "", nil
	}
	for known, d := range c.byName {
		if strings.EqualFold(known, name) {
			return d, true, nil
		}
	}
	if name == "" {
		return nil, false, forbid(http.StatusBadRequest, "the request names no model; known are "+strings.Join(c.aliases(), ", "))
	}
	r := forbid(http.StatusNotFound, fmt.Sprintf("unknown model %q; %s", name, c.suggest(name)))
	r.Code = "model_not_found"
	return nil, false, r
}

func (c *catalog) aliases() []string {
	all := make([]string, len(c.deployments))
	for i, d := range c.deployments {
		all[i] = d.alias
	}
	return all
}

func (c *catalog) suggest(name string) string {
	known := slices.Collect(maps.Keys(c.byName))
	if best := names.Closest(name, known); best != "" {
		return "did you mean " + best + "?"
	}
	return "known are " + strings.Join(c.aliases(), ", ")
}

// modelEntry is one line of /v1/models, in a form that OpenAI's and
// Anthropic's clients both read.
type modelEntry struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	OwnedBy     string `json:"owned_by"`
	Root        string `json:"root,omitempty"`
	MaxModelLen int    `json:"max_model_len,omitempty"`
	Type        string `json:"type"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
}

// serveModels lists every name of every model.
func (r *Router) serveModels(x *exchange) {
	list := struct {
		Object  string       `json:"object"`
		Data    []modelEntry `json:"data"`
		HasMore bool         `json:"has_more"`
		FirstID *string      `json:"first_id"`
		LastID  *string      `json:"last_id"`
	}{Object: "list", Data: []modelEntry{}}
	for _, d := range r.models.Load().deployments {
		list.Data = append(list.Data, d.entries(r.started)...)
	}
	if n := len(list.Data); n > 0 {
		list.FirstID, list.LastID = &list.Data[0].ID, &list.Data[n-1].ID
	}
	x.answerJSON(http.StatusOK, list)
}

// serveModel describes the model that a name means: requests for that name
// would get it.
func (r *Router) serveModel(x *exchange) {
	asked := modelAsked(x.req)
	d, rename, refused := r.models.Load().find(asked, r.opts.StrictModels)
	if refused != nil {
		x.refuse(*refused)
		return
	}
	entries := d.entries(r.started)
	i := 0
	if !rename {
		i = max(slices.IndexFunc(entries, func(e modelEntry) bool { return e.ID == asked }), 0)
	}
	x.answerJSON(http.StatusOK, entries[i])
}

func (d *deployment) entries(created time.Time) []modelEntry {
	d.mu.Lock()
	defer d.unlock()
	maxLen := 0
	for _, u := range d.upstreams {
		if n := u.facts.MaxModelLen; n > 0 && (maxLen == 0 || n < maxLen) {
			maxLen = n
		}
	}
	owner := d.model.OwnedBy
	if owner == "" {
		owner = "vllm"
	}
	var entries []modelEntry
	for _, name := range d.model.names() {
		entries = append(entries, modelEntry{
			ID: name, Object: "model", Created: created.Unix(), OwnedBy: owner, Root: d.model.Repo, MaxModelLen: maxLen,
			Type: "model", DisplayName: name, CreatedAt: created.UTC().Format(time.RFC3339),
		})
	}
	return entries
}
