package bench

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/cmd/internal/words"
)

// follower shows how far a run is: on a terminal in one line that is drawn
// again each second, elsewhere in a line every ten.
type follower struct {
	name     string
	duration time.Duration
	out      io.Writer
	live     bool

	mu    sync.Mutex
	turns int
	last  time.Duration // to the first text of the latest turn

	began time.Time
	stop  chan struct{}
	ended chan struct{}
}

func (b *bench) follow(name string, duration time.Duration) *follower {
	p := &follower{
		name: name, duration: duration, out: b.o.Err, live: b.o.Live,
		began: time.Now(), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	go p.run()
	return p
}

func (p *follower) turn(t load.Turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turns++
	if t.TTFT > 0 {
		p.last = t.TTFT
	}
}

func (p *follower) run() {
	defer close(p.ended)
	every := 10 * time.Second
	if p.live {
		every = time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			if p.live {
				fmt.Fprint(p.out, "\r\x1b[K")
			}
			return
		case <-tick.C:
			p.draw()
		}
	}
}

func (p *follower) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf("%s, %s of %s, %s", p.name, words.Short(time.Since(p.began)), words.Short(p.duration), words.Count(p.turns, "turn", "turns"))
	if p.last > 0 {
		text += fmt.Sprintf(", latest TTFT %.2fs", p.last.Seconds())
	}
	if p.live {
		fmt.Fprintf(p.out, "\r\x1b[K%.100s", text)
		return
	}
	fmt.Fprintln(p.out, text)
}

// close ends the drawing.
func (p *follower) close() {
	close(p.stop)
	<-p.ended
}
