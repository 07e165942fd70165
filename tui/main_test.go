package tui

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(childEnv); mode != "" {
		os.Exit(child(mode))
	}
	goleak.VerifyTestMain(m)
}

func ptr[T any](v T) *T { return &v }

// t0 is when every test picture is drawn.
var t0 = time.Date(2026, 11, 30, 21, 14, 10, 0, time.UTC)

// fakeSource is a daemon that says what the test tells it to say.
type fakeSource struct {
	mu       sync.Mutex
	messages chan control.Message // nil ends the stream without an error
	broken   error                // yielded when messages is closed
	logs     []control.LogLine
	orders   chan string
	refuse   error
}

func newSource() *fakeSource {
	return &fakeSource{messages: make(chan control.Message), orders: make(chan string, 10)}
}

func (f *fakeSource) say(s control.Status) { f.messages <- control.Message{Status: &s} }

func (f *fakeSource) stream() (chan control.Message, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.messages, f.broken
}

// hangUp ends the stream; the next Watch gets a new one.
func (f *fakeSource) hangUp(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = err
	close(f.messages)
	f.messages = make(chan control.Message)
}

func (f *fakeSource) Watch(ctx context.Context) iter.Seq2[control.Message, error] {
	return func(yield func(control.Message, error) bool) {
		messages, _ := f.stream()
		for {
			select {
			case <-ctx.Done():
				yield(control.Message{}, ctx.Err())
				return
			case m, open := <-messages:
				if !open {
					if _, err := f.stream(); err != nil {
						yield(control.Message{}, err)
					}
					return
				}
				if !yield(m, nil) {
					return
				}
			}
		}
	}
}

func (f *fakeSource) Logs(ctx context.Context, q control.LogQuery) iter.Seq2[control.LogLine, error] {
	return func(yield func(control.LogLine, error) bool) {
		for _, l := range f.logs {
			if !yield(l, nil) {
				return
			}
		}
		if !q.Follow {
			return
		}
		<-ctx.Done()
		yield(control.LogLine{}, ctx.Err())
	}
}

func (f *fakeSource) SetAffinity(_ context.Context, model string, on bool) (control.AffinityChange, error) {
	f.orders <- fmt.Sprintf("affinity %s %t", model, on)
	return control.AffinityChange{Model: model, Old: control.PolicyAffinity, New: control.PolicyBalance, SessionsLive: 24}, f.refuse
}

func (f *fakeSource) Replica(_ context.Context, id string, action control.ReplicaAction) (control.Accepted, error) {
	f.orders <- fmt.Sprintf("%s %s", action, id)
	return control.Accepted{Replica: id, Action: action}, f.refuse
}

var errHungUp = errors.New("connection reset")

// status is a daemon with n replicas in one state.
func status(n int, state string) control.Status {
	s := control.Status{Schema: control.Schema, Version: "0.1.0", Now: t0, StartedAt: t0.Add(-40 * time.Second), Listen: "http://127.0.0.1:8000", State: control.DaemonServing,
		Models: []control.Model{{Alias: "qwen3-4b", Repo: "Qwen/Qwen3-4B", DType: "bf16", DP: n, TP: 1, Device: "cuda", Policy: control.PolicyAffinity, Affinity: true,
			SpillLimit: 8, SpillAuto: true, MaxModelLen: 16384, MaxNumSeqs: 32}}}
	for i := range n {
		s.Replicas = append(s.Replicas, control.Replica{ID: fmt.Sprint("r", i), Model: "qwen3-4b", State: state, StartedAt: t0.Add(-31 * time.Second), Since: t0.Add(-31 * time.Second), Generation: 1, GPUs: []int{i}})
		s.GPUs = append(s.GPUs, control.GPU{Index: i, Name: "NVIDIA RTX A4000"})
	}
	return s
}

// change returns a copy of s with one replica changed.
func change(s control.Status, i int, how func(*control.Replica)) control.Status {
	s.Replicas = append([]control.Replica(nil), s.Replicas...)
	how(&s.Replicas[i])
	return s
}
