package keys

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	digest := strings.Repeat("0a", 32)
	var zeroA Hash
	for i := range zeroA {
		zeroA[i] = 0x0a
	}
	for _, c := range []struct {
		name, content string
		want          []Key
		wrong         string
	}{
		{"one of each", "# people\n\nplain-key\nsha256:" + digest + " name=ann scope=infer max_in_flight=3\n", []Key{
			{Hash: HashOf("plain-key"), Scope: Infer | Read, Plain: true},
			{Hash: zeroA, Name: "ann", Scope: Infer, MaxInFlight: 3},
		}, ""},
		{"admin is more than both", "k scope=admin", []Key{{Hash: HashOf("k"), Scope: Admin, Plain: true}}, ""},
		{"windows line ends", "k name=a\r\n", []Key{{Hash: HashOf("k"), Name: "a", Scope: Infer | Read, Plain: true}}, ""},
		{"byte order mark", "\ufeffsha256:" + digest + " name=a\n", []Key{{Hash: zeroA, Name: "a", Scope: Infer | Read}}, ""},
		{"empty", "# nothing\n", nil, "holds no key"},
		{"short digest", "k\nsha256:0a", nil, "line 2: behind sha256: are not 64"},
		{"unknown scope", "secret scope=root", nil, `line 1: scope "root"`},
		{"no scope", "secret scope=", nil, `line 1: scope ""`},
		{"unknown field", "secret role=x", nil, "line 1: behind a key only"},
		{"limit zero", "secret max_in_flight=0", nil, "at least 1"},
		{"limit not a number", "secret max_in_flight=many", nil, "at least 1"},
		{"name with a quote", "secret name=a\"b", nil, "letters, digits"},
		{"long name", "secret name=" + strings.Repeat("a", 41), nil, "1 to 40"},
		{"twice the same key", "secret\n\nsecret name=b", nil, "line 3: the key of line 1 again"},
		{"twice the same name", "secret name=a\nsecret2 name=a", nil, "line 2: the name of line 1 again"},
		{"too large", strings.Repeat("#", MaxFile+1), nil, "larger than"},
	} {
		got, err := Parse([]byte(c.content))
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v, want %q", c.name, err, c.wrong)
			}
			continue
		}
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", c.name, err, diff)
		}
	}
}

func TestNewKeysAreKnownByTheirLine(t *testing.T) {
	key, other := New(), New()
	if key == other || len(key) != len(prefix)+43 {
		t.Fatalf("keys of %d and %d letters", len(key), len(other))
	}
	line := Key{Hash: HashOf(key), Name: "ann", Scope: Read, MaxInFlight: 2}.Line()
	if strings.Contains(line, key) {
		t.Error("the line holds the key itself")
	}
	all, err := Parse([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	g := NewGuard(all...)
	got, ok := g.Find(key)
	if want := (Key{Hash: HashOf(key), Name: "ann", Scope: Read, MaxInFlight: 2}); !ok || got != want {
		t.Errorf("found %+v %v", got, ok)
	}
	if _, ok := g.Find(other); ok {
		t.Error("an unknown key was found")
	}
}

func TestNobodyWithoutAKey(t *testing.T) {
	for name, g := range map[string]*Guard{"no keys": NewGuard(), "the empty key": NewGuard(Key{Hash: HashOf("")})} {
		if _, ok := g.Find(""); ok {
			t.Errorf("%s: nothing was sent, and found", name)
		}
	}
}

func TestScopes(t *testing.T) {
	for scope, want := range map[Scope]string{Infer: "infer", Infer | Read: "infer,read", Admin: "admin"} {
		if got := scope.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, c := range []struct {
		has, need Scope
		want      bool
	}{
		{Infer, Infer, true}, {Infer, Read, false}, {Read, Infer, false}, {Admin, Infer, true}, {Admin, Read, true},
		{Infer, Infer | Read, true}, {Read, Infer | Read, true}, {0, Infer | Read, false},
	} {
		if got := c.has.Allows(c.need); got != c.want {
			t.Errorf("%q for %q: %v", c.has, c.need, got)
		}
	}
}

// Requests of many goroutines never exceed a key's bound, a new file changes
// the bound at once, and nothing stays counted.
func TestInFlight(t *testing.T) {
	k := Key{Hash: HashOf("k"), Scope: Infer, MaxInFlight: 2}
	g := NewGuard(k)
	for n := range 3 {
		if let := g.Begin(k); let != (n < 2) {
			t.Fatalf("request %d of 2: %v", n+1, let)
		}
	}
	k.MaxInFlight = 3
	g.Replace([]Key{k})
	if now, _ := g.Find("k"); !g.Begin(now) || g.Begin(now) {
		t.Error("the new bound does not count the old requests")
	}
	g.Replace([]Key{{Hash: HashOf("other")}})
	for range 3 {
		g.End(k) // a key that is gone from the file
	}
	g.Replace([]Key{k})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if g.Begin(k) {
				if n := g.Uses()[0].InFlight; n > 3 {
					t.Errorf("%d in flight", n)
				}
				g.End(k)
			}
		})
	}
	all.Wait()
	if use := g.Uses()[0]; use.InFlight != 0 || len(g.inFlight) != 0 {
		t.Errorf("%d stay in flight, %d keys counted", use.InFlight, len(g.inFlight))
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("k name=a scope=infer,read max_in_flight=9\n# x\nsha256:" + strings.Repeat("00", 32)))
	f.Add([]byte("\r\nk  \t scope=admin\n\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		all, err := Parse(content)
		if err != nil {
			return
		}
		// What was read can be written and read again.
		var text strings.Builder
		for _, k := range all {
			text.WriteString(k.Line())
		}
		again, err := Parse([]byte(text.String()))
		if err != nil || len(again) != len(all) {
			t.Fatalf("%d keys became %d: %v", len(all), len(again), err)
		}
		for i := range all {
			all[i].Plain = false
			if fmt.Sprint(all[i]) != fmt.Sprint(again[i]) || all[i] != again[i] {
				t.Fatalf("%+v became %+v", all[i], again[i])
			}
		}
	})
}

// The time that a wrong key takes does not depend on how much of it is right,
// and the time of a right one not on its place: Welch's t over 10^5 tries of
// either kind, in random order, without the slowest tenth (as dudect does).
func TestTimeTellsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	var all []Key
	for i := range 25 {
		all = append(all, Key{Hash: HashOf(fmt.Sprintf("key%02d", i))})
	}
	g := NewGuard(all...)
	almost := all[0].Hash
	almost[len(almost)-1] ^= 1
	wrong := all[0].Hash
	wrong[0] ^= 1
	for name, pair := range map[string][2]func(){
		"the first key and the last":     {func() { g.Find("key00") }, func() { g.Find("key24") }},
		"wrong at the end and beginning": {func() { find(all, almost, true) }, func() { find(all, wrong, true) }},
	} {
		// From 4.5 on a difference is likely, from 10 on certain. A busy machine
		// can disturb one measurement.
		value := 0.0
		for range 3 {
			if value = welch(pair, 100_000); math.Abs(value) < 10 {
				break
			}
		}
		t.Logf("%s: t = %.1f", name, value)
		if math.Abs(value) >= 10 {
			t.Errorf("%s take different times: t = %.1f", name, value)
		}
	}
}

// welch is the t of two kinds of calls.
func welch(kinds [2]func(), tries int) float64 {
	var took [2][]float64
	for range tries {
		kind := rand.IntN(2)
		began := time.Now()
		kinds[kind]()
		took[kind] = append(took[kind], float64(time.Since(began)))
	}
	var mean, variance, n [2]float64
	for k := range took {
		slices.Sort(took[k])
		kept := took[k][:len(took[k])*9/10]
		n[k] = float64(len(kept))
		for _, v := range kept {
			mean[k] += v / n[k]
		}
		for _, v := range kept {
			variance[k] += (v - mean[k]) * (v - mean[k]) / (n[k] - 1)
		}
	}
	return (mean[0] - mean[1]) / math.Sqrt(variance[0]/n[0]+variance[1]/n[1])
}
