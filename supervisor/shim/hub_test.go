package shim

import (
	"encoding/json"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hubClient is one end of a connection to a hub.
type hubClient struct {
	t    *testing.T
	conn net.Conn
	dec  *json.Decoder
}

func connect(t *testing.T, h *hub) *hubClient {
	t.Helper()
	ours, theirs := net.Pipe()
	h.attach(theirs)
	t.Cleanup(func() { ours.Close() })
	c := &hubClient{t: t, conn: ours, dec: json.NewDecoder(ours)}
	if m := c.next(); m.Kind != msgState || m.State.Replica != "r0" {
		t.Fatalf("first message %+v", m)
	}
	return c
}

func (c *hubClient) next() message {
	c.t.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		c.t.Fatal(err)
	}
	var m message
	if err := c.dec.Decode(&m); err != nil {
		c.t.Fatal(err)
	}
	return m
}

func (c *hubClient) ask(r request) {
	c.t.Helper()
	if err := json.NewEncoder(c.conn).Encode(r); err != nil {
		c.t.Fatal(err)
	}
}

func TestFollowHasNoGapAndNoDouble(t *testing.T) {
	h := newHub(State{Replica: "r0"}, make(chan request))
	for i := range keptLines + 50 {
		h.line(Line{Generation: uint64(i)})
	}
	h.line(Line{Redraw: true, Text: "not kept"})
	c := connect(t, h)
	c.ask(request{Op: opFollow, Tail: keptLines + 7})
	first := c.next()
	h.line(Line{Generation: keptLines + 50})
	want := uint64(50)
	for m := first; ; m = c.next() {
		if m.Kind != msgLine || m.Line.Generation != want {
			t.Fatalf("got %+v, want line %d", m.Line, want)
		}
		if want++; want > keptLines+50 {
			break
		}
	}
	h.close(time.Second)
}

func TestSlowClientLosesLinesButNoNotice(t *testing.T) {
	orders := make(chan request, 1)
	h := newHub(State{Replica: "r0"}, orders)
	slow, other := connect(t, h), connect(t, h)
	slow.ask(request{Op: opFollow})
	slow.ask(request{Op: opStop, Grace: time.Second}) // handled after the follow
	if r := <-orders; r.Op != opStop || r.Grace != time.Second {
		t.Fatalf("order %+v", r)
	}
	for range 3 * lineBacklog {
		h.line(Line{Text: "x"})
	}
	h.notice(message{Kind: msgGone})
	if m := other.next(); m.Kind != msgGone {
		t.Errorf("a client that does not follow got %+v", m)
	}
	lines := 0
	for slow.next().Kind == msgLine {
		lines++
	}
	if lines < lineBacklog || lines > 2*lineBacklog+1 {
		t.Errorf("%d lines reached the slow client", lines)
	}
	h.close(time.Second)
}

func TestCloseDoesNotWaitForClientsThatDoNotRead(t *testing.T) {
	h := newHub(State{Replica: "r0"}, make(chan request))
	c := connect(t, h)
	h.notice(message{Kind: msgGone})
	begun := time.Now()
	h.close(50 * time.Millisecond)
	if took := time.Since(begun); took > limit/2 {
		t.Errorf("closed after %s", took)
	}
	if n := h.clientCount(); n != 0 {
		t.Errorf("%d clients left", n)
	}
	_ = c
}

func TestCgroup(t *testing.T) {
	root := t.TempDir()
	if c := makeCgroup(root, "4:memory:/x\n0::/\n", "w"); c == nil || c.path != filepath.Join(root, "w") {
		t.Fatalf("%+v", c)
	}
	c := makeCgroup(root, "0::/w\n", "deep")
	if c == nil {
		t.Fatal("no group below an existing one")
	}
	if err := c.add(42); err != nil {
		t.Error(err)
	}
	if err := c.kill(); err != nil {
		t.Error(err)
	}
	for _, own := range []string{"", "4:memory:/x\n", "0::/missing\n", "0::/w\n"} {
		if c := makeCgroup(root, own, "deep"); c != nil {
			t.Errorf("%q: made %s", own, c.path)
		}
	}
}

func TestLoneliness(t *testing.T) {
	l := &loneliness{limit: time.Minute, since: noon}
	var got []bool
	for i, clients := range []int{0, 1, 0, 0} {
		got = append(got, l.tooLong(clients, noon.Add(time.Duration(i+1)*40*time.Second)))
	}
	if diff := cmp.Diff([]bool{false, false, false, true}, got); diff != "" {
		t.Error(diff)
	}
	if newLoneliness(0).tick() != nil {
		t.Error("without a limit there is nothing to measure")
	}
}
