package agreement

import (
	"context"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The engine of a script: a KV cache of 3,168 tokens, vLLM keeps one block back.
const (
	blockSize = 32
	blocks    = 100
	context3k = 2560
)

// simulated runs a simulated engine of that size for the test.
func simulated(t *testing.T, blocks int) Engine {
	t.Helper()
	s, err := server.New(server.Options{
		Model: Model, Tokenizer: prompt.Bytes, PromptTokensDetails: true,
		Engine: core.Config{BlockSize: blockSize, Blocks: blocks, MaxModelLen: context3k, MaxNumSeqs: 32},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	web := httptest.NewUnstartedServer(s)
	web.Config.ConnContext = server.ConnContext
	web.Start()
	t.Cleanup(func() {
		web.Close()
		stop()
		wg.Wait()
	})
	return Engine{Client: web.Client(), Base: web.URL}
}

func TestScriptIsItsSeed(t *testing.T) {
	if !reflect.DeepEqual(Script(7, 300), Script(7, 300)) {
		t.Error("two scripts of one seed differ")
	}
	if reflect.DeepEqual(Script(7, 20), Script(8, 20)) {
		t.Error("two seeds give one script")
	}
}

func play(t *testing.T, e Engine, script []Turn) []Outcome {
	t.Helper()
	said, err := Play(t.Context(), e, script)
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// A script must be worth playing: every kind of turn, answers of both ends,
// prefixes that stay cached and prefixes that are evicted.
func TestScriptPressesTheCache(t *testing.T) {
	script := Script(1, 1000)
	small, endless := play(t, simulated(t, blocks), script), play(t, simulated(t, 4000), script)
	sum := Sum(script, small)
	for _, kind := range []string{"first", "first, salted", "next", "fork", "again", "edit", "compaction", "bare prompt", "next, stopped"} {
		if sum.ByKind[kind] < 3 {
			t.Errorf("only %d turns of kind %q: %v", sum.ByKind[kind], kind, sum.ByKind)
		}
	}
	if share := float64(sum.Cached) / float64(sum.Prompt); share < 0.25 || share > 0.75 {
		t.Errorf("%.0f %% of the prompt tokens were cached: nothing is evicted, or nothing is kept", 100*share)
	}
	evicted := 0
	for i := range script {
		if small[i].Cached < endless[i].Cached {
			evicted++
		}
	}
	if evicted < 100 {
		t.Errorf("%d turns lost their prefix to eviction: the KV cache is too large for the script", evicted)
	}
}

func TestCompareFindsAnotherCacheSize(t *testing.T) {
	script := Script(3, 200)
	said := play(t, simulated(t, blocks), script)
	if found := Compare(script, said, play(t, simulated(t, blocks), script)); len(found) > 0 {
		t.Errorf("equal engines differ: %v", found)
	}
	found := Compare(script, said, play(t, simulated(t, blocks-1), script))
	if len(found) == 0 {
		t.Fatal("one block less makes no difference: the comparison sees nothing")
	}
	if text := found[0].String(); !strings.Contains(text, "turn") || !strings.Contains(text, "Cached") {
		t.Errorf("a difference reads %q", text)
	}
}

// shows is a stopped turn of the script with seed 1 at which one token more
// takes a block that a later turn misses.
const shows = 482

// What an engine says that ran on there is explained by just that turn; what a
// smaller cache says is not.
func TestExplain(t *testing.T) {
	script := Script(1, 500)
	fresh := func() Engine { return simulated(t, blocks) }
	other := append([]Turn(nil), script...)
	var err error
	if other[shows], err = runOn(script[shows], 1); err != nil {
		t.Fatal(err)
	}
	said := play(t, fresh(), other)
	said[shows].Output, said[shows].Finish, said[shows].Text = stopAfter, "stop", "" // what the front end makes of it
	if found := Compare(script, said, play(t, fresh(), script)); len(found) == 0 {
		t.Fatalf("one token more at turn %d (%s) does not show: take another turn", shows, script[shows].Kind)
	}
	e, err := Explain(t.Context(), fresh, blockSize, script, said)
	if err != nil {
		t.Fatal(err)
	}
	if left := Compare(script, said, e.Outcomes); !reflect.DeepEqual(e.RanOn, map[int]int{shows: 1}) || len(left) > 0 {
		t.Errorf("explained by %v, want turn %d; left: %v", e.RanOn, shows, left)
	}
	script = script[:80] // a search in vain tries everything
	said = play(t, simulated(t, blocks-15), script)
	if e, err = Explain(t.Context(), fresh, blockSize, script, said); err != nil || len(Compare(script, said, e.Outcomes)) == 0 {
		t.Errorf("a smaller cache was explained away (%v)", err)
	}
}

func TestAskTellsWhatIsWrong(t *testing.T) {
	e := simulated(t, blocks)
	turn := Turn{N: 4, Kind: "first", Path: "/v1/chat/completions", Body: []byte(`{"model":"other","messages":[{"role":"user","content":"x"}]}`)}
	if _, err := Ask(t.Context(), e.Client, e.Base, turn); err == nil || !strings.Contains(err.Error(), "turn 4 (first): 404") {
		t.Errorf("error %v", err)
	}
}
