package router

import (
	"fmt"

	"github.com/lm-warden/warden/router/deployment"
)

// SavedSession is one conversation as a file keeps it while warden restarts.
type SavedSession = deployment.SavedSession

// SaveSessions copies the conversations of a model that have a home.
func (r *Router) SaveSessions(model string) []SavedSession {
	d := r.models.Load().alias(model)
	if d == nil {
		return nil
	}
	return d.SaveSessions()
}

// RestoreSessions brings back what SaveSessions returned in an earlier process:
// see deployment.RestoreSessions.
func (r *Router) RestoreSessions(model string, saved []SavedSession) error {
	d := r.models.Load().alias(model)
	if d == nil {
		return fmt.Errorf("no model %q to restore sessions of", model)
	}
	return d.RestoreSessions(saved)
}
