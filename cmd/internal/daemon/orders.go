package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/lm-warden/warden/cmd/internal/plan"
	"github.com/lm-warden/warden/cmd/internal/words"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/router"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/keep"
)

var (
	_ control.Daemon   = (*Daemon)(nil)
	_ control.Upgrader = (*Daemon)(nil)
)

var pid = os.Getpid()

// Version answers GET /v1/version.
func (d *Daemon) Version() control.Version {
	details := map[string]string{"go": runtime.Version()}
	if len(d.models) > 0 {
		details["vllm"] = d.models[0].Install.Version
		details["vllm_origin"] = d.models[0].Install.Origin
	}
	if d.gpus != nil {
		details["driver"] = d.gpus.Inventory().Driver
	}
	return control.Version{Version: d.opts.Version, PID: pid, StartedAt: d.started, Details: details}
}

// Config answers GET /v1/config.
func (d *Daemon) Config() (control.Config, error) { return json.Marshal(Settings(d.cfg)) }

// Logs follows the engines' logs; with several replicas their lines are mixed
// as they come.
func (d *Daemon) Logs(ctx context.Context, q control.LogQuery) iter.Seq2[control.LogLine, error] {
	return func(yield func(control.LogLine, error) bool) {
		ids, err := d.logged(q.Replicas)
		if err != nil {
			yield(control.LogLine{}, err)
			return
		}
		query := supervisor.LogQuery{Tail: q.Tail, Since: q.Since, Previous: q.Previous, Follow: q.Follow && !q.Previous}
		if query.Follow {
			d.followLogs(ctx, ids, query, yield)
			return
		}
		for _, id := range ids {
			for line, err := range d.sup.Logs(ctx, id, query) {
				if !yield(wireLine(id, line), err) || err != nil {
					return
				}
			}
		}
	}
}

// followLogs merges the lines of several replicas as they come.
func (d *Daemon) followLogs(ctx context.Context, ids []supervisor.ReplicaID, query supervisor.LogQuery, yield func(control.LogLine, error) bool) {
	type item struct {
		line control.LogLine
		err  error
	}
	lines := make(chan item)
	var readers sync.WaitGroup
	defer readers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, id := range ids {
		readers.Go(func() {
			for line, err := range d.sup.Logs(ctx, id, query) {
				select {
				case lines <- item{wireLine(id, line), err}:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	for {
		select {
		case <-ctx.Done():
			return
		case it := <-lines:
			if !yield(it.line, it.err) || it.err != nil {
				return
			}
		}
	}
}

func wireLine(id supervisor.ReplicaID, l supervisor.LogLine) control.LogLine {
	return control.LogLine{Replica: string(id), At: l.At, Generation: l.Generation, Text: l.Text}
}

func (d *Daemon) logged(names []string) ([]supervisor.ReplicaID, error) {
	var ids, wanted []supervisor.ReplicaID
	for _, r := range d.sup.Snapshot() {
		ids = append(ids, r.ID)
	}
	for _, name := range names {
		id := supervisor.ReplicaID(name)
		if !slices.Contains(ids, id) {
			return nil, noReplica(name, ids)
		}
		wanted = append(wanted, id)
	}
	if len(wanted) == 0 {
		return ids, nil
	}
	return wanted, nil
}

func noReplica(name string, ids []supervisor.ReplicaID) error {
	return &control.Error{Code: control.CodeReplicaNotFound, Message: fmt.Sprintf("no replica %q", name), Hint: words.Listed("replica", ids)}
}

// SetAffinity turns a model's affinity on or off, live.
func (d *Daemon) SetAffinity(_ context.Context, model string, on bool) (control.AffinityChange, error) {
	m, err := d.served(model)
	if err != nil {
		return control.AffinityChange{}, err
	}
	before, after, err := d.router.SetAffinity(m.Alias, on)
	if err != nil {
		return control.AffinityChange{}, err
	}
	return control.AffinityChange{Model: m.Alias, Old: before, New: after, SessionsLive: d.routed(m.Alias).SessionsLive}, nil
}

// SetPolicy gives a model another placement policy, live.
func (d *Daemon) SetPolicy(_ context.Context, model, policy string) (control.AffinityChange, error) {
	m, err := d.served(model)
	if err != nil {
		return control.AffinityChange{}, err
	}
	before, err := d.router.SetPolicy(m.Alias, policy)
	if err != nil {
		return control.AffinityChange{}, &control.Error{Code: control.CodeBadRequest, Message: err.Error()}
	}
	return control.AffinityChange{Model: m.Alias, Old: before, New: policy, SessionsLive: d.routed(m.Alias).SessionsLive}, nil
}

// SetSpillLimit changes a model's spill limit, live; 0 is auto.
func (d *Daemon) SetSpillLimit(_ context.Context, model string, limit int) (control.SpillChange, error) {
	m, err := d.served(model)
	if err != nil {
		return control.SpillChange{}, err
	}
	if err := configs.CheckSpill(limit); err != nil {
		return control.SpillChange{}, &control.Error{Code: control.CodeBadRequest, Message: err.Error()}
	}
	before := effectiveSpill(d.routed(m.Alias))
	if _, err := d.router.SetSpillLimit(m.Alias, limit); err != nil {
		return control.SpillChange{}, err
	}
	return control.SpillChange{Model: m.Alias, Old: before, New: effectiveSpill(d.routed(m.Alias)), Auto: limit == 0}, nil
}

func effectiveSpill(m router.ModelSnapshot) int {
	if m.SpillLimit == 0 && len(m.Replicas) > 0 {
		return m.Replicas[0].SpillLimit
	}
	return m.SpillLimit
}

func (d *Daemon) routed(alias string) router.ModelSnapshot {
	for _, m := range d.router.Snapshot(0).Models {
		if m.Alias == alias {
			return m
		}
	}
	return router.ModelSnapshot{}
}

func (d *Daemon) served(name string) (plan.Model, error) {
	var aliases []string
	for _, m := range d.models {
		if m.Alias == name || m.Repo == name || name == "" && len(d.models) == 1 {
			return m, nil
		}
		aliases = append(aliases, m.Alias)
	}
	return plan.Model{}, &control.Error{Code: control.CodeModelNotFound, Message: fmt.Sprintf("model %q is not served", name), Hint: words.Listed("served model", aliases)}
}

// Replica orders something for one replica.
func (d *Daemon) Replica(ctx context.Context, id string, action control.ReplicaAction) (control.Accepted, error) {
	if err := d.awaitOrders(ctx); err != nil {
		return control.Accepted{}, err
	}
	replicas := d.sup.Snapshot()
	i := slices.IndexFunc(replicas, func(r supervisor.Replica) bool { return string(r.ID) == id })
	if i < 0 {
		ids := make([]supervisor.ReplicaID, 0, len(replicas))
		for _, r := range replicas {
			ids = append(ids, r.ID)
		}
		return control.Accepted{}, noReplica(id, ids)
	}
	r := replicas[i]
	err := d.order(r.ID, action)
	if err != nil {
		var refused *control.Error
		if !errors.As(err, &refused) {
			hint := wayTo(action, id)
			if errors.Is(err, keep.ErrHeld) {
				hint = "`warden status` tells when engines can start again"
			}
			err = &control.Error{Code: control.CodeWrongState, Message: err.Error(), Hint: hint}
		}
		return control.Accepted{}, err
	}
	return control.Accepted{Replica: id, Action: action, Generation: r.Generation}, nil
}

// awaitOrders returns when replicas take orders: right after an upgrade their
// engines are still being adopted, and nothing can be ordered of a replica that
// is neither here nor there.
func (d *Daemon) awaitOrders(ctx context.Context) error {
	for _, ready := range []<-chan struct{}{d.sup.Running(), d.adopted} {
		select {
		case <-ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// wayTo says what to do where an order does not fit a replica's state.
func wayTo(action control.ReplicaAction, id string) string {
	switch action {
	case control.Drain:
		return fmt.Sprintf("`warden undrain %s` lets it accept again, `warden restart %s` renews it", id, id)
	case control.Undrain:
		return fmt.Sprintf("only a drained or stopped replica is undrained; `warden restart %s` renews it", id)
	case control.Retry:
		return fmt.Sprintf("only a parked replica or one in backoff is retried; `warden restart %s` renews it", id)
	}
	return "`warden status` shows the state of each replica"
}

func (d *Daemon) order(id supervisor.ReplicaID, action control.ReplicaAction) error {
	switch action {
	case control.Restart:
		return d.sup.Restart(id, d.cfg.Drain)
	case control.Drain:
		return d.sup.Drain(id)
	case control.Undrain:
		return d.sup.Undrain(id)
	case control.Kill:
		return d.sup.Kill(id)
	case control.Retry:
		return d.sup.Retry(id)
	}
	return &control.Error{Code: control.CodeBadRequest, Message: fmt.Sprintf("unknown action %q", action)}
}

// Shutdown ends the daemon; the answer leaves before it begins.
func (d *Daemon) Shutdown(_ context.Context, req control.ShutdownRequest) error {
	drain := time.Duration(req.Drain)
	if drain == 0 {
		drain = d.cfg.Drain
	}
	if req.Now {
		d.Kill()
		return nil
	}
	d.Stop(drain)
	select {
	case <-d.leaving: // the successor was first, and knows nothing of this order
		return d.orderable()
	default:
		return nil
	}
}
