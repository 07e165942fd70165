package ladder

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/lm-warden/warden/router"
	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/supervisor/simengine/server"
)

// routed is a run through the router itself: HTTP clients, the Router, and the
// HTTP servers of simulated engines, over connections in memory.
type routed struct {
	Run
	net     network
	router  *router.Router
	engines []*routedEngine
	client  *http.Client

	mu         sync.Mutex
	log        log
	drawn      int                      // scripts
	records    map[string]router.Record // of requests that ended and whose client does not know yet, by request id
	unfinished int
	waiting    time.Duration // longest wait in the router of a turn that got no place
	err        error
}

// routedEngine is one replica behind HTTP.
type routedEngine struct {
	id     placement.ReplicaID
	server *server.Server
	web    *http.Server
}

// routedModel is the only model of a routed run; frontDoor the router's name
// in its network.
const (
	routedModel = "simulated"
	frontDoor   = "warden"
)

// PlayRouted plays a closed loop like Play, with nothing left out between
// client and scheduler: bodies are parsed, conversations recognised, tokens
// counted from text and answers streamed by the code that serves. It takes its
// time from the clock: call it in a testing/synctest bubble.
//
// At one and the same moment goroutines run in any order, so unlike Play it
// does not give the same figures to the last digit each time.
func PlayRouted(r Run, policy string) (Result, error) {
	switch {
	case r.Work.Sessions == 0, len(r.Work.SubagentsAt) > 0, r.Fleet.DieAt != 0:
		return Result{}, errors.New("the routed ladder plays closed loops without sub-agents and deaths: use Play for others")
	}
	p := &routed{Run: r, records: map[string]router.Record{}}
	p.router = router.New(router.Options{Dial: p.net.dial, OnFinish: p.finished})
	err := p.router.SetModels([]router.Model{{
		Alias: routedModel, Placement: placement.Config{Policy: policy, Seed: r.Seed},
	}})
	if err != nil {
		return Result{}, err
	}
	stop, err := p.start()
	if err != nil {
		return Result{}, err
	}
	p.play()
	res := p.result()
	stop()
	res.Policy, res.Level = policy, LevelRouter
	return res, p.err
}

// start runs engines and router; stop ends them again.
func (p *routed) start() (stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	front := router.NewServer(p.router)
	p.client = &http.Client{Transport: &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return p.net.dial(ctx, frontDoor) },
		DisableCompression:  true,
		MaxIdleConnsPerHost: p.Work.Sessions,
	}}
	stop = func() {
		p.router.Close()
		_ = front.Close()
		for _, e := range p.engines {
			_ = e.web.Close()
		}
		p.client.CloseIdleConnections()
		cancel()
		running.Wait()
		// net/http lingers half a second on connections that it cuts.
		pause(context.Background(), time.Second)
	}
	for i, cfg := range p.Fleet.Engines {
		id := placement.ReplicaID(fmt.Sprintf("r%d", i))
		s, err := server.New(server.Options{Model: routedModel, Engine: cfg, PromptTokensDetails: true, Seed: uint64(i)})
		if err != nil {
			stop()
			return nil, err
		}
		e := &routedEngine{id: id, server: s, web: &http.Server{Handler: s, ConnContext: server.ConnContext}}
		p.engines = append(p.engines, e)
		door := p.net.listen(string(id))
		running.Go(func() { _ = e.server.Run(ctx) })
		running.Go(func() { _ = e.web.Serve(door) })
	}
	door := p.net.listen(frontDoor)
	running.Go(func() { _ = front.Serve(door) })
	if err := p.router.SetReplicas(routedModel, p.replicas()); err != nil {
		stop()
		return nil, err
	}
	running.Go(func() { p.scrape(ctx) })
	return stop, nil
}

func (p *routed) replicas() []router.Replica {
	set := make([]router.Replica, 0, len(p.engines))
	for _, e := range p.engines {
		cfg := e.server.Config()
		set = append(set, router.Replica{
			ID: e.id, Generation: 1, Address: string(e.id), Accepting: true, MaxNumSeqs: cfg.MaxNumSeqs,
			KVCapacityTokens: cfg.Capacity(), HostKVTokens: cfg.Host.Tokens, MaxModelLen: cfg.MaxModelLen,
		})
	}
	return set
}

// scrape tells the router what engines say about themselves.
func (p *routed) scrape(ctx context.Context) {
	for pause(ctx, statsEvery) {
		for _, e := range p.engines {
			p.router.SetStats(routedModel, e.id, viewOf(e.server.Stats(), e.server.Config().Capacity(), time.Now()))
		}
	}
}

// play runs all clients until the run is over.
func (p *routed) play() {
	began := time.Now()
	p.log.from, p.log.to = began.Add(p.Warmup), began.Add(p.Warmup+p.Length)
	ctx, cancel := context.WithDeadline(context.Background(), p.log.to)
	defer cancel()
	rng := rand.New(rand.NewPCG(p.Seed, 99))
	var clients sync.WaitGroup
	for slot := range p.Work.Sessions {
		delay := time.Duration(rng.Int64N(int64(time.Second)))
		clients.Go(func() {
			if err := p.converse(ctx, slot, delay); err != nil && ctx.Err() == nil {
				p.mu.Lock()
				p.err = errors.Join(p.err, err)
				p.mu.Unlock()
				cancel()
			}
		})
	}
	clients.Wait()
	// The router ends requests of clients that have left in its own time.
	_ = p.router.Drain(context.Background())
}

// finished takes the router's record of a request, before its client sees the
// last byte.
func (p *routed) finished(rec router.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !rec.Aborted {
		p.records[rec.RequestID] = rec
		return
	}
	p.unfinished++
	if rec.Placed.IsZero() {
		p.waiting = max(p.waiting, rec.Ended.Sub(rec.Arrived))
	}
}

func (p *routed) result() Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := facts{work: p.Work, length: p.Length, unfinished: p.unfinished, waiting: p.waiting}
	for _, e := range p.engines {
		f.engines = append(f.engines, e.id)
		f.preemptions += e.server.Stats().Preemptions
	}
	return p.log.result(f)
}

// pause waits for d; false if ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
