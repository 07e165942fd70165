package keep

import (
	"context"
	"time"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/machine"
	"github.com/lm-warden/warden/supervisor/probe"
)

// silentFix is what may help a start that waits for something. Several GPUs that claim to reach each other over PCIe and
// do not are the classic: the first exchange between them never ends, and nothing is logged.
func silentFix(s supervisor.Spec) string {
	fix := "look at the engine's log for what it waits for"
	if s.TP > 1 && s.Device == supervisor.DeviceCUDA {
		fix += "; GPUs that do not reach each other over PCIe hang like this: set NCCL_P2P_DISABLE=1 in the configured environment"
	}
	return fix
}

func (r *replica) spawn(generation uint64) {
	if r.starts++; r.starts > 1 {
		if r.m.View().Streak == 0 { // no failure, or one that an order made forgotten
			r.cause = supervisor.RestartOrder
		}
		r.restarts.Add(r.cause)
	}
	r.out = newStartLog(time.Now())
	r.failed, r.progress = probe.FailureTracker{}, time.Time{}
	r.facts = facts{exit: r.facts.exit, took: r.facts.took, phases: r.facts.phases}
	r.keep("generation", r.ledger.SetGeneration(r.spec.ID, generation))
	r.tasks.Go(func() {
		msg := r.start(generation)
		if _, delivered := r.post(r.life, msg); !delivered && msg.proc != nil {
			msg.proc.Close()
		}
	})
}

func (r *replica) start(generation uint64) launched {
	spec, err := r.opts.Pin(r.life, r.spec)
	if err != nil {
		return launched{err: err}
	}
	command, err := spec.Engine.Command(spec)
	if err != nil {
		return launched{err: err, perm: true}
	}
	proc, err := r.opts.Launcher.Launch(r.life, launchOf(spec, command, generation))
	return launched{proc: proc, err: err}
}

func launchOf(s supervisor.Spec, command supervisor.Command, generation uint64) supervisor.Launch {
	return supervisor.Launch{
		ID: s.ID, Model: s.Model, Generation: generation, Command: command,
		CPUs: s.CPUs, Address: s.Address, GPUUUIDs: s.GPUUUIDs,
	}
}

// adopt looks for a running engine of an earlier warden.
func (r *replica) adopt(ctx context.Context) error {
	command, err := r.spec.Engine.Command(r.spec)
	if err != nil {
		return nil // the start will tell, in its place
	}
	proc, err := r.opts.Launcher.Adopt(ctx, launchOf(r.spec, command, 0))
	if err != nil {
		return err
	}
	if used, delivered := r.post(ctx, found{proc}); !delivered || !used {
		proc.Close()
	}
	return nil
}

func (r *replica) onLaunched(l launched) (used bool) {
	if l.err != nil {
		return r.handle(machine.Unborn{Diagnosis: supervisor.Diagnosis{Cause: l.err.Error(), Permanent: l.perm}})
	}
	r.take(l.proc)
	used = r.handle(machine.Spawned{Info: l.proc.Info()})
	r.startWatch()
	return used
}

func (r *replica) onFound(proc supervisor.Process) (used bool) {
	r.take(proc)
	if used = r.handle(machine.Adopted{Info: proc.Info()}); !used {
		r.drop()
		return false
	}
	r.starts++
	r.startWatch()
	r.publish()
	return true
}

// take begins to listen to a process.
func (r *replica) take(proc supervisor.Process) {
	r.proc, r.events = proc, proc.Events()
	r.facts.pid = proc.Info().PID
}

func (r *replica) drop() { r.proc, r.events, r.facts.pid = nil, nil, 0 }
