package router

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lm-warden/warden/router/deployment"
	"github.com/lm-warden/warden/router/names"
)

// Model is one model that replicas serve.
type Model = deployment.Model

// catalog is an immutable set of models; SetModels replaces it.
type catalog struct {
	deployments []*deployment.Deployment // in the order given
	byName      map[string]*deployment.Deployment
}

// SetModels replaces the set of models. A model whose alias stays keeps its
// replicas and conversations; turns that wait for one that goes are refused.
// It refuses names that two models claim.
func (r *Router) SetModels(models []Model) error {
	r.changes.Lock()
	defer r.changes.Unlock()
	old, next := r.models.Load(), &catalog{byName: map[string]*deployment.Deployment{}}
	for _, m := range models {
		if err := m.SystemTurns.Check(); err != nil {
			return fmt.Errorf("model %q: %w", m.Alias, err)
		}
		for _, name := range m.Names() {
			if other := next.byName[name]; other != nil {
				return fmt.Errorf("models %q and %q both claim the name %q", other.Alias, m.Alias, name)
			}
		}
		d := old.alias(m.Alias)
		if d == nil {
			d = deployment.New(m, r.shared)
		}
		next.deployments = append(next.deployments, d)
		for _, name := range m.Names() {
			next.byName[name] = d
		}
	}
	for i, m := range models {
		next.deployments[i].Configure(m)
	}
	r.models.Store(next)
	for _, d := range old.deployments {
		if next.alias(d.Alias) == nil {
			d.Shut()
		}
	}
	return nil
}

func (c *catalog) alias(alias string) *deployment.Deployment {
	for _, d := range c.deployments {
		if d.Alias == alias {
			return d
		}
	}
	return nil
}

// find returns the model that name means. rename says that its replicas do
// not know that name: agents ask for names of their own, such as claude-*,
// and get the only model there is unless names are strict.
func (c *catalog) find(name string, strict bool) (d *deployment.Deployment, rename bool, refused *refusal) {
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

// toChange returns the model of exactly that name; "" means the only one.
func (c *catalog) toChange(name string) (*deployment.Deployment, error) {
	if name == "" && len(c.deployments) == 1 {
		return c.deployments[0], nil
	}
	d, _, refused := c.find(name, true)
	if refused != nil {
		return nil, errors.New(refused.Message)
	}
	return d, nil
}

func (c *catalog) aliases() []string {
	all := make([]string, len(c.deployments))
	for i, d := range c.deployments {
		all[i] = d.Alias
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
		list.Data = append(list.Data, entries(d, r.started)...)
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
	entries := entries(d, r.started)
	i := 0
	if !rename {
		i = max(slices.IndexFunc(entries, func(e modelEntry) bool { return e.ID == asked }), 0)
	}
	x.answerJSON(http.StatusOK, entries[i])
}

// entries are the lines of one model, one for each of its names.
func entries(d *deployment.Deployment, created time.Time) []modelEntry {
	model, maxLen := d.Model(), d.MaxModelLen()
	var entries []modelEntry
	for _, name := range model.Names() {
		entries = append(entries, modelEntry{
			ID: name, Object: "model", Created: created.Unix(), OwnedBy: cmp.Or(model.OwnedBy, "vllm"), Root: model.Repo,
			MaxModelLen: maxLen, Type: "model", DisplayName: name, CreatedAt: created.UTC().Format(time.RFC3339),
		})
	}
	return entries
}
