package ladder

import (
	"encoding/binary"
	"time"

	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/supervisor/simengine/core"
)

// client plays conversations: in a closed loop one after the other, in an open
// loop one only.
type client struct {
	sim   *sim
	slot  int // which of the N concurrent conversations
	rerun bool
}

// conversation is one script being played.
type conversation struct {
	sim     *sim
	slot    int
	script  *script
	key     placement.Key
	parent  placement.Key
	history []core.Token
	turn    int
	kids    int // next unstarted child
	busy    int // children that run
	began   time.Time
	ideal   time.Duration
	done    func()
}

func (c *client) start() {
	n := c.sim.drawn
	c.sim.drawn++
	conv := c.sim.open(c.sim.work.draw(c.sim.seed, n), c.slot, placement.Key{})
	conv.done = func() {
		c.sim.log.session(sessionRecord{conv.slot, c.sim.now.Sub(conv.began), conv.ideal}, c.sim.now)
		if c.rerun {
			c.start()
		}
	}
	conv.next()
}

// open starts a conversation with its system prompt.
func (s *sim) open(sc *script, slot int, parent placement.Key) *conversation {
	s.keys++
	var k placement.Key
	binary.BigEndian.PutUint64(k[:8], s.keys*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(k[8:], s.keys)
	return &conversation{
		sim: s, slot: slot, script: sc, key: k, parent: parent, began: s.now,
		history: append([]core.Token(nil), sc.system...),
	}
}

// next sends the next turn or ends the conversation.
func (c *conversation) next() {
	if c.turn == len(c.script.turns) {
		c.done()
		return
	}
	t := c.script.turns[c.turn]
	c.history = append(c.history, text(c.script.seed, len(c.history), t.message)...)
	c.send(c.sim.now)
}

// send sends the current turn; began is when the user first wanted it.
func (c *conversation) send(began time.Time) {
	t := c.script.turns[c.turn]
	prompt := c.history[:len(c.history):len(c.history)]
	class := placement.ClassMain
	if !c.parent.IsZero() {
		class = placement.ClassSubagent
	}
	c.sim.arrive(&request{
		conv: c, began: began, turn: c.turn,
		prompt: prompt, answer: text(c.script.seed, len(prompt), t.answer),
		in: placement.Turn{
			Key: c.key, Parent: c.parent, Class: class, Root: c.script.root,
			PromptTokens: int(float64(len(prompt)) * c.script.noise),
			MaxOutput:    c.sim.work.OutputMax,
		},
	})
}

// answered takes the end of a turn.
func (c *conversation) answered(r *request) {
	t := c.script.turns[c.turn]
	c.history = append(c.history, r.answer...)
	c.ideal += idealTurn(c.sim.engines[0].core.Config(), idealCached(r), len(r.prompt), len(r.answer)) + t.gap
	c.turn++
	if t.spawn {
		c.spawn(t.gap)
		return
	}
	c.sim.after(t.gap, c.next)
}

// spawn runs the children of this turn and goes on when all have ended.
func (c *conversation) spawn(gap time.Duration) {
	n := min(c.sim.work.Subagents, len(c.script.kids)-c.kids)
	c.busy = n
	for range n {
		kid := c.sim.open(c.script.kids[c.kids], c.slot, c.key)
		c.kids++
		kid.done = func() {
			if c.busy--; c.busy == 0 {
				c.sim.after(gap, c.next)
			}
		}
		kid.next()
	}
}

// refused waits as told and asks again; broken asks again at once.
func (c *conversation) refused(r *request, after time.Duration) {
	c.sim.after(after, func() { c.send(r.began) })
}
