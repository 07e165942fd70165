package events

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func texts(es []Event) []string {
	out := []string{}
	for _, e := range es {
		out = append(out, e.Text)
	}
	return out
}

func TestRecentKeepsTheLastInOrder(t *testing.T) {
	tests := []struct {
		limit, publish, ask int
		want                []string
	}{
		{limit: 0, publish: 3, ask: 0, want: []string{}},
		{limit: 3, publish: 0, ask: 5, want: []string{}},
		{limit: 3, publish: 2, ask: 0, want: []string{"1", "2"}},
		{limit: 3, publish: 3, ask: 0, want: []string{"1", "2", "3"}},
		{limit: 3, publish: 5, ask: 0, want: []string{"3", "4", "5"}},
		{limit: 3, publish: 7, ask: 2, want: []string{"6", "7"}},
		{limit: 3, publish: 7, ask: 9, want: []string{"5", "6", "7"}},
	}
	for _, tt := range tests {
		b := NewBus(tt.limit)
		for i := range tt.publish {
			b.Publish(Event{Text: strconv.Itoa(i + 1)})
		}
		if diff := cmp.Diff(tt.want, texts(b.Recent(tt.ask))); diff != "" {
			t.Errorf("limit %d, %d published, Recent(%d): %s", tt.limit, tt.publish, tt.ask, diff)
		}
	}
}

func TestPublishNumbersAndStamps(t *testing.T) {
	b := NewBus(2)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b.Publish(Event{Text: "given", At: at})
	b.Publish(Event{Text: "stamped"})
	got := b.Recent(0)
	if got[0].Seq != 1 || got[1].Seq != 2 {
		t.Errorf("sequence numbers %d, %d, want 1, 2", got[0].Seq, got[1].Seq)
	}
	if !got[0].At.Equal(at) || got[1].At.IsZero() {
		t.Errorf("times %v, %v: the first must be kept, the second set", got[0].At, got[1].At)
	}
}

func TestFullSubscriptionLosesOldestAndCounts(t *testing.T) {
	b := NewBus(0)
	s := b.Subscribe(2)
	for i := range 5 {
		b.Publish(Event{Text: strconv.Itoa(i + 1)})
	}
	if s.Dropped() != 3 {
		t.Errorf("Dropped() = %d, want 3", s.Dropped())
	}
	s.Close()
	s.Close()
	var got []Event
	for e := range s.C() {
		got = append(got, e)
	}
	if diff := cmp.Diff([]string{"4", "5"}, texts(got)); diff != "" {
		t.Error(diff)
	}
	b.Publish(Event{}) // a closed subscription must not be sent to
	if b.Dropped() != 3 {
		t.Errorf("the bus counts %d dropped after the reader has left, want 3", b.Dropped())
	}
}

func TestEventsDoNotShareFields(t *testing.T) {
	b := NewBus(1)
	one, two := b.Subscribe(1), b.Subscribe(1)
	defer one.Close()
	defer two.Close()
	fields := map[string]string{"k": "v"}
	b.Publish(Event{Fields: fields})
	fields["k"] = "changed by the publisher"
	(<-one.C()).Fields["k"] = "changed by a reader"
	b.Recent(1)[0].Fields["k"] = "changed by another reader"
	if got := (<-two.C()).Fields["k"]; got != "v" {
		t.Errorf("second reader sees %q", got)
	}
	if got := b.Recent(1)[0].Fields["k"]; got != "v" {
		t.Errorf("ring holds %q", got)
	}
}

func TestSubscribeRecentHasNoGap(t *testing.T) {
	const total = 2000
	b := NewBus(total)
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for range total {
			b.Publish(Event{})
		}
	})
	s, before := b.SubscribeRecent(total, total)
	publishing.Wait()
	s.Close()
	want := uint64(1)
	check := func(e Event) {
		if e.Seq != want {
			t.Fatalf("got event %d, want %d", e.Seq, want)
		}
		want++
	}
	for _, e := range before {
		check(e)
	}
	for e := range s.C() {
		check(e)
	}
	if want != total+1 {
		t.Errorf("saw %d events, want %d", want-1, total)
	}
}

func TestZeroBusWorks(t *testing.T) {
	var b Bus
	s := b.Subscribe(0)
	defer s.Close()
	b.Publish(Event{Text: "x"})
	if e := <-s.C(); e.Text != "x" || e.Seq != 1 {
		t.Errorf("got %+v", e)
	}
}
