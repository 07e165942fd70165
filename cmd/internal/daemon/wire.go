package daemon

import (
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/lm-warden/warden/cmd/internal/conns"
	"github.com/lm-warden/warden/cmd/internal/gpuwatch"
	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/cmd/internal/plan"
	"github.com/lm-warden/warden/cmd/internal/rates"
	"github.com/lm-warden/warden/cmd/internal/self"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/router"
	"github.com/lm-warden/warden/router/mends"
	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/events"
	"github.com/lm-warden/warden/supervisor/keep"
	"github.com/lm-warden/warden/supervisor/launch"
	"github.com/lm-warden/warden/supervisor/machine"
)

// This file connects the parts, which do not know each other: what the
// supervisor learns of a replica goes to the router, what the router learns of
// an engine's failure goes back, and both tell the bus.

// newRouter makes the data path of the planned models.
func (d *Daemon) newRouter() (*router.Router, error) {
	opts := router.Options{
		Log: d.log, Keys: d.front.Keys(), Hosts: d.cfg.AllowedHosts, Origins: d.cfg.AllowedOrigins,
		StrictModels: d.cfg.StrictModelNames, SessionHeaders: d.cfg.SessionHeaders,
		MaxOpen: int(conns.Limit()),
		OnFailure: func(id router.ReplicaID, generation uint64, err error) {
			d.sup.ReportFailure(supervisor.ReplicaID(id), generation, err)
		},
		OnEvent: func(kind string, replica router.ReplicaID, model, text string, fields map[string]string) {
			d.bus.Publish(events.Event{Kind: kind, Replica: string(replica), Model: model, Text: text, Fields: fields})
			if kind == events.KindAffinity {
				d.log.Info("placement changed", "model", model, "text", text)
			}
		},
	}
	if err := d.openSpool(&opts); err != nil {
		return nil, err
	}
	if err := d.openRecorders(&opts); err != nil {
		return nil, err
	}
	d.metrics = d.newMetrics()
	opts.Metrics = d.metrics
	rt := router.New(opts)
	d.metrics.Register(rt)
	models := make([]router.Model, 0, len(d.models))
	for _, m := range d.models {
		models = append(models, router.Model{
			Alias: m.Alias, Repo: m.Repo, OwnedBy: ownedBy(m),
			ExactStreams: m.ExactStreams, ExactErrors: m.ExactErrors, ExactUsage: m.ExactUsage,
			SystemTurns: mends.SystemTurns(m.SystemTurns), EnginePriority: m.Tuned.Priority,
			Placement: placement.Config{
				Policy: m.Affinity, SpillLimit: m.SpillAt, SessionTTL: d.cfg.SessionTTL,
				MaxSessions: d.cfg.MaxSessions, MaxWait: d.cfg.MaxWait,
				Admission: placement.AdmissionConfig{
					Overcommit: m.Admission.Overcommit, RotateAfter: m.Admission.RotateAfter, RotateShare: m.Admission.RotateShare,
				},
			},
		})
	}
	return rt, rt.SetModels(models)
}

// ownedBy tells clients when no real model answers.
func ownedBy(m plan.Model) string {
	if m.Specs[0].Device == supervisor.DeviceSimulated {
		return "SIMULATED"
	}
	return ""
}

// newSupervisor makes the replicas; each engine runs under a shim, which is
// this program again.
func (d *Daemon) newSupervisor(runtime string) (*keep.Supervisor, error) {
	d.warnOfEngines()
	var specs []supervisor.Spec
	for _, m := range d.models {
		specs = append(specs, m.Specs...)
	}
	d.facts = &replicaFacts{daemon: d, byModel: map[string]map[supervisor.ReplicaID]router.Replica{}}
	for _, s := range specs {
		d.facts.note(supervisor.Replica{Spec: s, State: supervisor.Pending})
	}
	return keep.New(specs, keep.Options{
		Launcher: launch.New(launch.Options{
			Argv: func() []string { return self.Argv(self.Shim) }, RuntimeDir: runtime,
			LogDir: d.logDir(), LockDir: d.lockDir(runtime),
		}),
		Bus: d.bus, Log: d.log, StateDir: paths.StateDir(d.cfg.Name),
		Work:    d.work,
		GPUFree: d.gpus.Free, Hold: d.mayStart(runtime), Pin: d.gpus.Pin, BootID: gpuwatch.BootID(d.log),
		Changed: d.facts.changed, Scraped: d.metrics.Keep, ParallelStart: d.cfg.Engine.ParallelStart,
		Timing: keep.Timing{Timing: machine.Timing{StartSilence: d.cfg.Engine.StartTimeout}},
	})
}

// logDir holds the engines' logs.
func (d *Daemon) logDir() string { return filepath.Join(paths.StateDir(d.cfg.Name), "logs") }

// lockDir holds one lock per GPU, for all wardens of this user. Simulated GPUs are
// each warden's own.
func (d *Daemon) lockDir(runtime string) string {
	if d.cfg.Engine.Device == configs.DeviceSimulated {
		return filepath.Join(runtime, ".locks")
	}
	return paths.LockDir()
}

// warnOfEngines tells what a person should know of the vLLM that was found.
func (d *Daemon) warnOfEngines() {
	if len(d.models) == 0 {
		return
	}
	for _, text := range d.models[0].Install.Warnings { // one vLLM serves all models
		d.log.Warn("what to know of this vLLM", "err", text)
		d.bus.Publish(events.Event{Kind: "vllm", Text: text})
	}
	d.tellTuning()
}

// tellTuning logs what was chosen, and warns of what was asked for against
// advice.
func (d *Daemon) tellTuning() {
	for _, m := range d.models {
		if m.Unkept != nil {
			d.log.Warn("engine settings are decided anew by the next warden: they cannot be noted", "err", m.Unkept)
		}
		for _, s := range m.Tuned.Settings {
			d.log.Info("engine setting", "model", m.Alias, "flag", s.Flag, "value", s.Value, "by", string(s.By), "reason", s.Reason)
		}
		if w := m.Tuned.Tier.Warning; w != "" && m.Tuned.Tier.GiB > 0 {
			d.log.Warn("the KV cache's tier in host memory was asked for against advice", "model", m.Alias, "reason", w)
			d.bus.Publish(events.Event{Kind: "vllm", Model: m.Alias, Text: "kv_offload was asked for: " + w})
		}
	}
}

// replicaFacts keeps what the router was last told of each replica.
type replicaFacts struct {
	daemon *Daemon

	mu      sync.Mutex
	byModel map[string]map[supervisor.ReplicaID]router.Replica
}

// changed is the supervisor's notice; it runs on the replica's own goroutine.
func (f *replicaFacts) changed(r supervisor.Replica) {
	f.note(r)
	if r.Stats.At.IsZero() {
		return
	}
	f.daemon.engines.add(r)
	f.daemon.router.SetStats(r.Model, router.ReplicaID(r.ID), router.EngineView{
		At: r.Stats.At, Running: r.Stats.Running, Waiting: r.Stats.Waiting, KVUsed: r.Stats.KVUsed,
		KVCapacityTokens: r.Stats.KVCapacityTokens, Preemptions: r.Stats.Preemptions,
	})
}

// note tells the router when something it decides by has changed.
func (f *replicaFacts) note(r supervisor.Replica) {
	f.mu.Lock()
	defer f.mu.Unlock()
	model := f.byModel[r.Model]
	if model == nil {
		model = map[supervisor.ReplicaID]router.Replica{}
		f.byModel[r.Model] = model
	}
	now := f.routerReplica(r)
	if model[r.ID] == now {
		return
	}
	model[r.ID] = now
	list := make([]router.Replica, 0, len(model))
	for _, id := range slices.Sorted(maps.Keys(model)) {
		list = append(list, model[id])
	}
	if err := f.daemon.router.SetReplicas(r.Model, list); err != nil {
		f.daemon.log.Error("the router does not know a supervised model", "model", r.Model, "err", err)
	}
}

// told says whether the router knows a replica as it is.
func (f *replicaFacts) told(r supervisor.Replica) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byModel[r.Model][r.ID] == f.routerReplica(r)
}

func (f *replicaFacts) routerReplica(r supervisor.Replica) router.Replica {
	capacity := r.Stats.KVCapacityTokens
	if capacity == 0 {
		capacity = r.Phase.KVTokens
	}
	suspect := r.State == supervisor.Suspect
	unproven := suspect && r.ReadyAt.IsZero() // adopted: it may still be loading
	return router.Replica{
		ID: router.ReplicaID(r.ID), Generation: r.Generation, Address: r.Address,
		Accepting: r.State.Accepting() || suspect && !unproven, Suspect: suspect,
		Starting: r.Coming() || unproven, MaxNumSeqs: r.MaxNumSeqs, KVCapacityTokens: capacity, MaxModelLen: r.MaxModelLen,
		HostKVTokens: plan.HostTokens(f.daemon.models, r.Model),
	}
}

// engineRates keeps the last minute of every engine's counters.
type engineRates struct {
	mu      sync.Mutex
	windows map[supervisor.ReplicaID]*rates.Window
}

func newEngineRates() *engineRates {
	return &engineRates{windows: map[supervisor.ReplicaID]*rates.Window{}}
}

func (e *engineRates) add(r supervisor.Replica) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.windows[r.ID]
	if w == nil {
		w = &rates.Window{}
		e.windows[r.ID] = w
	}
	w.Add(r.Generation, r.Stats)
}

// all is the last minute of every engine that has one.
func (e *engineRates) all() map[supervisor.ReplicaID]rates.Rates {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make(map[supervisor.ReplicaID]rates.Rates, len(e.windows))
	for id, w := range e.windows {
		if minute, ok := w.Over(); ok {
			all[id] = minute
		}
	}
	return all
}
