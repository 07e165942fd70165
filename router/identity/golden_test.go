package identity

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/lm-warden/warden/router/identity/scan"
)

// The golden samples are what real clients send, with made-up values. The tests
// of scan read their bodies too. Each file holds requests and, above them, what
// must be true of them:
//
//	id NAME field=value...   the request's Identity; a key is ns|value|lane,
//	                         where @root and @first stand for the hash of its
//	                         root and of its history up to the first user turn
//	root A = B, root A != B  equality of roots; likewise "key"
//	grows A B                A's history is the beginning of B's
//	flow STEP...             one Index, step by step: NAME:KIND, then <NAME for
//	                         the conversation inherited from, =NAME for the same
//	                         conversation as that step's; a trailing & leaves
//	                         the request in flight, ! lets it fail, ~ abort
//	change A B cause         what Explain says about B after A
//	edit NAME EDIT text      the edited body holds text; EDIT is fold or usage

func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 34 {
		t.Fatalf("%d golden files, want at least 34", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			g := readGolden(t, file)
			checks := 0
			for _, line := range strings.Split(g.script, "\n") {
				words := strings.Fields(line)
				if len(words) == 0 || strings.HasPrefix(line, "#") {
					continue
				}
				checks++
				g.check(t, words, line)
			}
			if checks == 0 {
				t.Fatal("the file checks nothing")
			}
		})
	}
}

type golden struct {
	script string
	sent   map[string]sent
}

type sent struct {
	request Request
	raw     []byte
	body    *scan.Body
	id      Identity
}

func readGolden(t *testing.T, file string) golden {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g := golden{script: string(archive.Comment), sent: map[string]sent{}}
	for _, f := range archive.Files {
		head, body, _ := strings.Cut(string(f.Data), "\n\n")
		first, rest, _ := strings.Cut(head, "\n")
		wire := first + " HTTP/1.1\r\nHost: localhost\r\n" + strings.ReplaceAll(rest, "\n", "\r\n") + "\r\n\r\n"
		if rest == "" {
			wire = first + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
		}
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(wire)))
		if err != nil {
			t.Fatalf("%s: %s: %v", file, f.Name, err)
		}
		s := sent{raw: []byte(strings.TrimSuffix(body, "\n"))}
		s.request = Request{Method: req.Method, Path: req.URL.Path, PeerAddr: req.Header.Get("Peer"), Header: req.Header}
		s.request.Header.Del("Peer")
		if extra := req.Header.Get("Operator"); extra != "" {
			s.request.ExtraHeaders = strings.Split(extra, ",")
		}
		s.body = scan.Scan(s.request.Path, s.raw)
		s.id = Identify(s.request, s.body)
		s.id.Describe(s.body, s.raw)
		g.sent[f.Name] = s
	}
	return g
}

func (g golden) get(t *testing.T, name string) sent {
	t.Helper()
	s, ok := g.sent[name]
	if !ok {
		t.Fatalf("no request %q", name)
	}
	return s
}

func (g golden) check(t *testing.T, words []string, line string) {
	t.Helper()
	switch words[0] {
	case "id":
		s := g.get(t, words[1])
		for _, field := range words[2:] {
			name, want, _ := strings.Cut(field, "=")
			if got := s.field(t, name, &want); got != want {
				t.Errorf("%s: %s = %q, want %q", words[1], name, got, want)
			}
		}
	case "root", "key":
		a, b := g.get(t, words[1]).id, g.get(t, words[3]).id
		equal := a.Root == b.Root
		if words[0] == "key" {
			equal = a.Key == b.Key
		}
		if equal != (words[2] == "=") {
			t.Errorf("not true: %s", line)
		}
	case "grows":
		a, b := g.get(t, words[1]).id.chain, g.get(t, words[2]).id.chain
		if len(a) == 0 || len(a) > len(b) || !slices.Equal(a, b[:len(a)]) {
			t.Errorf("%s is not the beginning of %s: %x, %x", words[1], words[2], a, b)
		}
	case "flow":
		g.flow(t, words[1:])
	case "change":
		g.change(t, words[1:])
	case "edit":
		s := g.get(t, words[1])
		out := bytes.Join(s.body.Edited(s.raw, scan.Edit{FoldSystemTurns: words[2] == "fold", IncludeUsage: words[2] == "usage"}), nil)
		want := strings.SplitN(line, " ", 4)[3]
		if !strings.Contains(string(out), want) {
			t.Errorf("edited body has no %s:\n%s", want, out)
		}
	default:
		t.Fatalf("unknown check: %s", line)
	}
}

// field returns one field as text; want is rewritten where it stands for a key.
func (s sent) field(t *testing.T, name string, want *string) string {
	key := func(k Key) string {
		if *want == "-" {
			*want = "-"
			return k.Short()
		}
		parts := append(strings.Split(*want, "|"), "", "")
		lane := parts[2]
		switch lane {
		case "@root":
			lane = hex64(s.body.Root)
		case "@first":
			lane = hex64(s.body.Chain[s.body.FirstUser])
		}
		*want = scope{model: s.body.Model}.key(parts[0], parts[1], lane).String()
		return k.String()
	}
	switch name {
	case "key":
		return key(s.id.Key)
	case "parent":
		return key(s.id.Parent)
	case "class":
		return string(s.id.Class)
	case "source":
		return s.id.source
	case "client":
		return s.id.Client
	case "pin":
		if *want != "" {
			*want = PinKey("", *want).String()
		}
		return s.id.StatePin
	case "compacted":
		return fmt.Sprint(s.id.compacted)
	case "turns":
		return fmt.Sprint(s.id.Turns)
	case "valid":
		return fmt.Sprint(s.body.Valid)
	case "stream":
		return fmt.Sprint(s.body.Stream)
	case "system-turns":
		return fmt.Sprint(s.body.SystemTurns)
	}
	t.Fatalf("unknown field %q", name)
	return ""
}

func (g golden) flow(t *testing.T, steps []string) {
	t.Helper()
	index := NewIndex(Limits{})
	now := time.Unix(1_800_000_000, 0)
	resolved := map[string]Resolution{}
	for _, step := range steps {
		name, want, _ := strings.Cut(step, ":")
		ending, inFlight := Done, false
		switch want[len(want)-1] {
		case '&':
			inFlight = true
		case '!':
			ending = Failed
		case '~':
			ending = Aborted
		}
		want = strings.TrimRight(want, "&!~")
		now = now.Add(time.Second)
		before := index.Len()
		r := index.Resolve(g.get(t, name).id, now)
		if !inFlight {
			index.Finish(r, ending, now)
		}
		kind, from, inherits := strings.Cut(want, "<")
		kind, as, joins := strings.Cut(kind, "=")
		if string(r.Kind) != kind {
			t.Errorf("%s: %s is %s (shared %d turns), want %s", strings.Join(steps, " "), name, r.Kind, r.sharedTurns, kind)
		}
		if inherits != !r.From.IsZero() || inherits && r.From != resolved[from].Key {
			t.Errorf("%s: %s inherits from %s, want %q", strings.Join(steps, " "), name, r.From.Short(), from)
		}
		if joins && r.Key != resolved[as].Key {
			t.Errorf("%s: %s is not the conversation of %s", strings.Join(steps, " "), name, as)
		}
		known := r.Kind == KindSame || r.Kind == KindRetry || r.Kind == KindNone || r.Kind == KindCompaction || joins
		if grew := index.Len() > before; grew == known {
			t.Errorf("%s: after %s (%s) there are %d conversations, before %d", strings.Join(steps, " "), name, r.Kind, index.Len(), before)
		}
		resolved[name] = r
	}
}

// change resolves requests in turn and checks the cause named for the last.
func (g golden) change(t *testing.T, words []string) {
	t.Helper()
	index := NewIndex(Limits{})
	now := time.Unix(1_800_000_000, 0)
	var r Resolution
	var client string
	for _, name := range words[:len(words)-1] {
		s := g.get(t, name)
		r, client = index.Resolve(s.id, now), s.id.Client
		index.Finish(r, Done, now)
	}
	if got := r.Change.Explain(client); string(got.Cause) != words[len(words)-1] {
		t.Errorf("%v: got %+v from %+v", words, got, r.Change)
	}
}
