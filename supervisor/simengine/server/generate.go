package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/api"
	"github.com/lm-warden/warden/supervisor/simengine/server/openai"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// generate serves an API that generates: body makes an empty body to read into,
// failure is the shape of the API's errors.
func (s *Server) generate(failure wire.Shape, body func() api.Request) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := body()
		if !wire.Read(w, r, q) {
			return
		}
		if err := s.answer(w, r, q); err != nil {
			wire.Fail(w, err, failure)
		}
	}
}

// answer works a request's tasks off and writes the reply. An error means that
// nothing has been written yet.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, q api.Request) error {
	received := time.Now()
	job, failure := q.Job(s.settings)
	if failure != nil {
		return failure
	}
	var reply api.Reply
	var answers []*api.Answer
	var cut prompt.Cut
	for _, t := range job.Tasks {
		g, err := s.start(r, t)
		if err != nil {
			return err
		}
		defer g.close()
		if reply == nil {
			reply = q.Reply(s.head(r, job, received))
		}
		cut = s.faults.Cut(t.Script.Cut)
		if job.Stream {
			stream(r.Context(), reply.Stream(wire.Open(w, r, cut), g.answer), g)
			return nil
		}
		if err := g.finish(r.Context()); err != nil {
			return err
		}
		answers = append(answers, g.answer)
	}
	return wire.WriteAnswer(w, r, cut, reply.Whole(answers))
}

// head is what a reply that begins now says of itself.
func (s *Server) head(r *http.Request, job api.Job, received time.Time) api.Head {
	return api.Head{Settings: s.settings, ID: s.newID(job.Prefix, r), Received: received.Unix(), Created: time.Now().Unix()}
}

// stream sends an answer as it grows, to its end or to an error.
func stream(ctx context.Context, to api.Stream, g *generation) {
	err := to.Open()
	if err == nil {
		begun := false
		err = g.follow(ctx, func(choice int, pieces []prompt.Piece) error {
			if !begun {
				begun = true
				if err := to.Begin(); err != nil {
					return err
				}
			}
			return to.Token(choice, pieces)
		})
	}
	if err == nil {
		err = to.Finish()
	}
	var failure *wire.Error
	if errors.As(err, &failure) {
		to.Fail(failure)
	}
}

// query serves an API that needs no engine.
func (s *Server) query(failure wire.Shape, body func() api.Query) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := body()
		if !wire.Read(w, r, q) {
			return
		}
		result, err := q.Result(s.settings)
		if err != nil {
			wire.Fail(w, err, failure)
			return
		}
		wire.Write(w, http.StatusOK, result)
	}
}

// embeddings are no answers, but cost the engine their prompts.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	var q openai.Embeddings
	if !wire.Read(w, r, &q) {
		return
	}
	job, failure := q.Job(s.settings)
	if failure != nil {
		wire.Fail(w, failure, wire.OpenAI)
		return
	}
	head := s.head(r, job, time.Now())
	for _, t := range job.Tasks {
		g, err := s.start(r, t)
		if err == nil {
			err = g.finish(r.Context())
			g.close()
		}
		if err != nil {
			wire.Fail(w, err, wire.OpenAI)
			return
		}
	}
	wire.Write(w, http.StatusOK, q.Vectors(head, job.Tasks))
}

func responseByID(w http.ResponseWriter, r *http.Request) {
	wire.Fail(w, openai.UnknownResponse(r.PathValue("id")), wire.OpenAI)
}
