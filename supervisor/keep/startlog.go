package keep

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/lm-warden/warden/supervisor"
)

// diagnosisLines is how many last lines the engine package gets to explain an exit.
const diagnosisLines = 200

// maxNovel bounds the memory of lines seen during one start.
const maxNovel = 8192

// phaseOrder is the order in which start-up phases come.
var phaseOrder = []string{supervisor.PhaseSpawn, supervisor.PhaseWeights, supervisor.PhaseCompile, supervisor.PhaseProfile, supervisor.PhaseGraphs, supervisor.PhaseServe}

// startLog reads the output of one engine process: the last lines for a diagnosis, the phase of a start, and whether a
// start still makes progress. It never decides that an engine is ready.
type startLog struct {
	lines  []string // ring of diagnosisLines
	next   int
	phase  supervisor.Phase
	began  []phaseStart
	seed   maphash.Seed
	novel  map[uint64]struct{}
	redraw string
}

type phaseStart struct {
	name string
	at   time.Time
}

func newStartLog(now time.Time) *startLog {
	return &startLog{
		phase: supervisor.Phase{Name: supervisor.PhaseSpawn}, began: []phaseStart{{supervisor.PhaseSpawn, now}},
		seed: maphash.MakeSeed(), novel: make(map[uint64]struct{}),
	}
}

// add takes a line and reports whether it says something that was not said before in this start. A line that differs
// from an earlier one in its numbers only is a repetition ("still waiting, 40 s"); a progress bar must move.
func (s *startLog) add(l supervisor.LogLine) (news bool) {
	if l.Redraw {
		news = l.Text != s.redraw
		s.redraw = l.Text
		return news
	}
	if len(s.lines) < diagnosisLines {
		s.lines = append(s.lines, l.Text)
	} else {
		s.lines[s.next] = l.Text
		s.next = (s.next + 1) % diagnosisLines
	}
	if len(s.novel) >= maxNovel {
		return false
	}
	key := maphash.String(s.seed, strings.Map(digitsAlike, l.Text))
	_, seen := s.novel[key]
	s.novel[key] = struct{}{}
	return !seen
}

func digitsAlike(r rune) rune {
	if r >= '0' && r <= '9' {
		return '0'
	}
	return r
}

// last returns the kept lines, oldest first.
func (s *startLog) last() []string {
	return append(slices.Clone(s.lines[s.next:]), s.lines[:s.next]...)
}

// advance moves to a phase, never backwards, and reports whether anything changed. Engines print lines of an earlier
// phase late, from other processes; a bar of one phase may begin again for the next part.
func (s *startLog) advance(p supervisor.Phase, now time.Time) bool {
	p.KVTokens = max(p.KVTokens, s.phase.KVTokens)
	had, have := slices.Index(phaseOrder, s.phase.Name), slices.Index(phaseOrder, p.Name)
	switch {
	case have < had: // also an unknown name
		p = supervisor.Phase{Name: s.phase.Name, Detail: s.phase.Detail, Done: s.phase.Done, Total: s.phase.Total, KVTokens: p.KVTokens}
	case have == had && p.Total == s.phase.Total && p.Done < s.phase.Done:
		p.Done = s.phase.Done
	case have == had && p.Total == 0 && s.phase.Total > 0:
		p.Done, p.Total = s.phase.Done, s.phase.Total
	case have > had:
		s.began = append(s.began, phaseStart{p.Name, now})
	}
	changed := p != s.phase
	s.phase = p
	return changed
}

// durations returns how long each phase took until now, in order.
func (s *startLog) durations(now time.Time) []supervisor.PhaseTime {
	var out []supervisor.PhaseTime
	for i, b := range s.began {
		end := now
		if i+1 < len(s.began) {
			end = s.began[i+1].at
		}
		out = append(out, supervisor.PhaseTime{Name: b.name, Took: end.Sub(b.at)})
	}
	return out
}

// summary names the phases that took at least a second: weights 6s, compile 19s.
func summary(phases []supervisor.PhaseTime) string {
	var parts []string
	for _, p := range phases {
		if p.Took >= time.Second {
			parts = append(parts, fmt.Sprintf("%s %s", p.Name, p.Took.Round(time.Second)))
		}
	}
	return strings.Join(parts, ", ")
}
