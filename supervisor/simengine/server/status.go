package server

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/api"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// health knows whether the engine is dead, not whether it still moves.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	if !s.faults.Health(r.Context()) {
		return
	}
	if s.engine.isDead() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	wire.Write(w, http.StatusOK, map[string]string{"version": s.opts.Version})
}

func (s *Server) load(w http.ResponseWriter, _ *http.Request) {
	wire.Write(w, http.StatusOK, map[string]int{"server_load": 0}) // needs a flag in vLLM, too
}

func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
	var b strings.Builder
	s.metrics.Write(&b)
	_, _ = w.Write([]byte(b.String()))
}

func (s *Server) showFaults(w http.ResponseWriter, _ *http.Request) {
	wire.Write(w, http.StatusOK, s.faults.Values())
}

// setFaults takes a JSON object; numbers and booleans count as their text, null
// switches a fault off.
func (s *Server) setFaults(w http.ResponseWriter, r *http.Request) {
	var raw map[string]any
	if !wire.Read(w, r, &raw) {
		return
	}
	values := make(map[string]string, len(raw))
	for key, value := range raw {
		switch v := value.(type) {
		case nil:
			values[key] = ""
		case float64:
			values[key] = strconv.FormatFloat(v, 'f', -1, 64)
		default:
			values[key] = fmt.Sprint(v)
		}
	}
	if err := s.faults.Apply(values); err != nil {
		wire.Fail(w, wire.BadRequest("", "%v", err), wire.OpenAI)
		return
	}
	s.showFaults(w, r)
}

type modelCard struct {
	ID          string       `json:"id"`
	Object      string       `json:"object"`
	Created     int64        `json:"created"`
	OwnedBy     string       `json:"owned_by"`
	Root        string       `json:"root"`
	Parent      *string      `json:"parent"`
	MaxModelLen int          `json:"max_model_len"`
	Permission  []permission `json:"permission"`
}

type permission struct {
	ID                 string  `json:"id"`
	Object             string  `json:"object"`
	Created            int64   `json:"created"`
	AllowCreateEngine  bool    `json:"allow_create_engine"`
	AllowSampling      bool    `json:"allow_sampling"`
	AllowLogprobs      bool    `json:"allow_logprobs"`
	AllowSearchIndices bool    `json:"allow_search_indices"`
	AllowView          bool    `json:"allow_view"`
	AllowFineTuning    bool    `json:"allow_fine_tuning"`
	Organization       string  `json:"organization"`
	Group              *string `json:"group"`
	IsBlocking         bool    `json:"is_blocking"`
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	cards := make([]modelCard, 0, len(s.opts.Served))
	for _, name := range s.opts.Served {
		cards = append(cards, modelCard{
			ID: name, Object: "model", Created: s.started.Unix(), OwnedBy: "vllm-" + prompt.Label,
			Root: s.opts.Model, MaxModelLen: s.Config().MaxModelLen,
			Permission: []permission{{
				ID: "modelperm-" + api.StableID(name)[:16], Object: "model_permission", Created: s.started.Unix(),
				AllowSampling: true, AllowLogprobs: true, AllowView: true, Organization: "*",
			}},
		})
	}
	wire.Write(w, http.StatusOK, struct {
		Object string      `json:"object"`
		Data   []modelCard `json:"data"`
	}{"list", cards})
}
