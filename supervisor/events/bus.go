package events

import (
	"sync"
	"time"
)

// Bus hands every published event to every subscription and remembers the most recent ones.
// The zero Bus is usable and remembers nothing. All methods may be called from any goroutine.
type Bus struct {
	mu     sync.Mutex
	seq    uint64
	recent []Event // ring of at most limit events; next is where the following one goes
	limit  int
	next   int
	subs   map[*Subscription]struct{}
	lost   uint64 // events that subscriptions dropped, also closed ones
}

// NewBus returns a Bus that remembers the last recent events; 0 or less remembers none.
func NewBus(recent int) *Bus {
	return &Bus{limit: max(recent, 0)}
}

// Publish numbers the event, stamps it when At is zero, and queues it for every subscription. It never blocks.
func (b *Bus) Publish(e Event) {
	e = e.clone()
	if e.At.IsZero() {
		e.At = time.Now()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	e.Seq = b.seq
	b.remember(e)
	for s := range b.subs {
		s.offer(e)
	}
}

func (b *Bus) remember(e Event) {
	if b.limit == 0 {
		return
	}
	if len(b.recent) < b.limit {
		b.recent = append(b.recent, e)
		return
	}
	b.recent[b.next] = e
	b.next = (b.next + 1) % b.limit
}

// Recent returns the last n remembered events, oldest first; n <= 0 returns all of them.
func (b *Bus) Recent(n int) []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.recentLocked(n)
}

func (b *Bus) recentLocked(n int) []Event {
	have := len(b.recent)
	if n <= 0 || n > have {
		n = have
	}
	out := make([]Event, 0, n)
	for i := have - n; i < have; i++ {
		out = append(out, b.recent[(b.next+i)%have].clone())
	}
	return out
}

// Subscribe starts a queue of at most buffer events (at least 1). The caller must Close it.
func (b *Bus) Subscribe(buffer int) *Subscription {
	s, _ := b.SubscribeRecent(buffer, 0)
	return s
}

// SubscribeRecent is Subscribe together with Recent(n) in one step: no event falls between the two and none is in
// both. n <= 0 returns no events.
func (b *Bus) SubscribeRecent(buffer, n int) (*Subscription, []Event) {
	s := &Subscription{bus: b, ch: make(chan Event, max(buffer, 1))}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subs == nil {
		b.subs = make(map[*Subscription]struct{})
	}
	b.subs[s] = struct{}{}
	if n <= 0 {
		return s, nil
	}
	return s, b.recentLocked(n)
}

// Dropped counts the events that readers lost, over all subscriptions that ever were.
func (b *Bus) Dropped() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost
}

// Subscription is one reader's bounded queue.
type Subscription struct {
	bus     *Bus
	ch      chan Event
	dropped uint64 // guarded by bus.mu
}

// C delivers the events in order. It is closed by Close, after what is queued has been read.
func (s *Subscription) C() <-chan Event { return s.ch }

// Dropped counts the events this reader lost because its queue was full.
func (s *Subscription) Dropped() uint64 {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	return s.dropped
}

// Close ends the subscription. Closing twice is harmless.
func (s *Subscription) Close() {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	if _, open := s.bus.subs[s]; !open {
		return
	}
	delete(s.bus.subs, s)
	close(s.ch)
}

// offer queues e, giving up the oldest queued event when there is no room. The bus lock makes this goroutine the
// only sender, so after one event was taken out the second send finds room.
func (s *Subscription) offer(e Event) {
	e = e.clone() // readers of different subscriptions may not share a map
	select {
	case s.ch <- e:
		return
	default:
	}
	select {
	case <-s.ch:
		s.dropped++
		s.bus.lost++
	default: // the reader emptied a place in between
	}
	s.ch <- e
}
