// Package remote is the running warden as the command line sees it: it finds
// models and replicas in a status, and follows orders to their end.
package remote

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/words"
	"github.com/lm-warden/warden/supervisor/control"
)

// FindModel looks a served model up by alias or repository; "" is the only one.
func FindModel(s control.Status, name string) (control.Model, error) {
	var aliases []string
	for _, m := range s.Models {
		if m.Alias == name || m.Repo == name || (name == "" && len(s.Models) == 1) {
			return m, nil
		}
		aliases = append(aliases, m.Alias)
	}
	if name == "" {
		return control.Model{}, exit.Fail(exit.Usage, errors.New("several models are served: which one?"), words.Listed("served model", aliases))
	}
	return control.Model{}, exit.Fail(exit.Failed, fmt.Errorf("model %q is not served", name), words.Listed("served model", aliases))
}

// Replicas are the named replicas, all of them when none is named, or an error when
// one is not there.
func Replicas(s control.Status, names []string) ([]string, error) {
	var all []string
	for _, r := range s.Replicas {
		all = append(all, r.ID)
	}
	if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		if !slices.Contains(all, name) {
			return nil, &control.Error{Code: control.CodeReplicaNotFound, Message: fmt.Sprintf("no replica %q", name), Hint: words.Listed("replica", all)}
		}
	}
	return names, nil
}

// FindReplica looks a replica up by its name.
func FindReplica(s control.Status, id string) (control.Replica, bool) {
	for _, r := range s.Replicas {
		if r.ID == id {
			return r, true
		}
	}
	return control.Replica{}, false
}
