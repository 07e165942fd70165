package keep

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lm-warden/warden/supervisor"
)

func TestStartLogGoesForwardOnly(t *testing.T) {
	tests := []struct {
		name  string
		steps []supervisor.Phase
		want  supervisor.Phase
	}{
		{"forward", []supervisor.Phase{{Name: "weights", Done: 1, Total: 2}, {Name: "graphs"}}, supervisor.Phase{Name: "graphs"}},
		{"backward", []supervisor.Phase{{Name: "graphs", Done: 3, Total: 9}, {Name: "weights", Done: 2, Total: 2}}, supervisor.Phase{Name: "graphs", Done: 3, Total: 9}},
		{"bar back", []supervisor.Phase{{Name: "weights", Done: 5, Total: 9}, {Name: "weights", Done: 2, Total: 9}}, supervisor.Phase{Name: "weights", Done: 5, Total: 9}},
		{"bar of a second part", []supervisor.Phase{{Name: "weights", Done: 9, Total: 9}, {Name: "weights", Done: 1, Total: 4}}, supervisor.Phase{Name: "weights", Done: 1, Total: 4}},
		{"remark keeps the bar", []supervisor.Phase{{Name: "weights", Done: 5, Total: 9}, {Name: "weights", Detail: "shards"}}, supervisor.Phase{Name: "weights", Detail: "shards", Done: 5, Total: 9}},
		{"unknown", []supervisor.Phase{{Name: "weights"}, {Name: "dancing"}}, supervisor.Phase{Name: "weights"}},
		{"capacity stays", []supervisor.Phase{{Name: "profile", KVTokens: 40000}, {Name: "serve"}}, supervisor.Phase{Name: "serve", KVTokens: 40000}},
	}
	for _, tt := range tests {
		s := newStartLog(t0)
		for _, p := range tt.steps {
			s.advance(p, t0)
		}
		if diff := cmp.Diff(tt.want, s.phase); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestStartLogKnowsNews(t *testing.T) {
	s := newStartLog(t0)
	lines := []struct {
		line supervisor.LogLine
		news bool
	}{
		{supervisor.LogLine{Text: "waiting, 10 s"}, true},
		{supervisor.LogLine{Text: "waiting, 20 s"}, false},
		{supervisor.LogLine{Text: "loaded"}, true},
		{supervisor.LogLine{Text: "loaded"}, false},
		{supervisor.LogLine{Text: "shards 10%", Redraw: true}, true},
		{supervisor.LogLine{Text: "shards 10%", Redraw: true}, false},
		{supervisor.LogLine{Text: "shards 20%", Redraw: true}, true},
	}
	for _, l := range lines {
		if got := s.add(l.line); got != l.news {
			t.Errorf("%q: news %v", l.line.Text, got)
		}
	}
	for i := range 2 * diagnosisLines {
		s.add(supervisor.LogLine{Text: fmt.Sprint("line ", i)})
	}
	kept := s.last()
	if len(kept) != diagnosisLines || kept[0] != "line 200" || kept[diagnosisLines-1] != "line 399" {
		t.Errorf("%d kept, %q to %q", len(kept), kept[0], kept[len(kept)-1])
	}
	for i := range 2 * maxNovel {
		s.add(supervisor.LogLine{Text: strings.Repeat("x", i%300) + string(rune('a'+i%20))})
	}
	if len(s.novel) > maxNovel {
		t.Errorf("remembers %d lines", len(s.novel))
	}
}
