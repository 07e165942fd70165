package screen

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
	"github.com/lm-warden/warden/tui/state"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var sizes = map[string]state.Size{"80x24": {W: 80, H: 24}, "140x40": {W: 140, H: 40}}

// pictures are every state of the screen that a user may meet, each at both sizes.
var pictures = map[string]func(state.Size) state.State{
	"loading": func(z state.Size) state.State { return lived(state.Up, loading(), z) },
	"ready":   func(z state.Size) state.State { return lived(state.Top, mild(), z) },
	"hot":     func(z state.Size) state.State { return lived(state.Top, hot(), z) },
	"failed":  func(z state.Size) state.State { return lived(state.Top, failed(), z) },
	"empty":   func(z state.Size) state.State { return lived(state.Up, ready(), z) },
	"lost": func(z state.Size) state.State {
		s, _ := state.Reduce(lived(state.Top, hot(), z), state.Ticked{At: t0.Add(12 * time.Second)})
		return s
	},
	"stopped": func(z state.Size) state.State {
		s, _ := state.Reduce(lived(state.Top, hot(), z), state.Unreachable{At: t0.Add(40 * time.Second)})
		return s
	},
	"stale": func(z state.Size) state.State {
		st := hot()
		e := *st.Replicas[1].Engine
		e.Stale, e.AgeSeconds = true, 14.2
		st.Replicas[1].Engine = &e
		return lived(state.Top, st, z)
	},
	"demo": func(z state.Size) state.State {
		st := mild()
		st.Simulated, st.Models[0].Device = true, "simulated"
		for i := range st.GPUs {
			st.GPUs[i].Name = "SIMULATED GPU 16GB"
		}
		return lived(state.Up, st, z)
	},
	"nogpu": func(z state.Size) state.State {
		st := mild()
		st.GPUs = nil
		return lived(state.Top, st, z)
	},
	"two-models": func(z state.Size) state.State {
		st := mild()
		second := st.Models[0]
		second.Alias, second.Repo, second.Affinity, second.Policy, second.DP = "coder", "Qwen/Qwen3-Coder-30B", false, control.PolicyBalance, 2
		st.Models[0].DP = 2
		st.Models = append(st.Models, second)
		st.Replicas[2].Model, st.Replicas[3].Model = "coder", "coder"
		return press(lived(state.Top, st, z), "down", "down")
	},
	"balance": func(z state.Size) state.State {
		st := mild()
		st.Models[0].Affinity, st.Models[0].Policy = false, control.PolicyBalance
		return lived(state.Top, st, z)
	},
	"paused":   func(z state.Size) state.State { return press(lived(state.Top, hot(), z), " ") },
	"explain":  func(z state.Size) state.State { return press(lived(state.Top, hot(), z), "e") },
	"tokens":   func(z state.Size) state.State { return press(lived(state.Top, hot(), z), "tab") },
	"sessions": func(z state.Size) state.State { return press(lived(state.Top, queuedStatus(), z), "tab", "tab") },
	"history":  func(z state.Size) state.State { return press(lived(state.Top, hot(), z), "tab", "tab", "tab") },
	"events":   func(z state.Size) state.State { return press(lived(state.Top, hot(), z), "shift+tab") },
	"detail":   func(z state.Size) state.State { return press(lived(state.Top, failed(), z), "enter") },
	"detail-r3": func(z state.Size) state.State {
		return press(lived(state.Top, hot(), z), "j", "j", "j", "enter")
	},
	"log":     func(z state.Size) state.State { return press(lived(state.Top, hot(), z), "l", "w") },
	"search":  func(z state.Size) state.State { return press(lived(state.Top, hot(), z), "l", "/", "P", "O", "S", "T") },
	"filter":  func(z state.Size) state.State { return press(lived(state.Top, hot(), z), "/", "r", "3", "enter", "s") },
	"help":    func(z state.Size) state.State { return press(lived(state.Top, hot(), z), "?") },
	"confirm": func(z state.Size) state.State { return press(lived(state.Top, hot(), z), "R") },
	"quit-up": func(z state.Size) state.State { return press(lived(state.Up, hot(), z), "q") },
	"before": func(z state.Size) state.State {
		s, _ := state.Reduce(state.New(state.Top, false, time.UTC, t0), state.Resized{Size: z})
		return s
	},
}

func queuedStatus() control.Status {
	st := hot()
	st.Models[0].Queue = []control.Queued{
		{Session: "e0a1", Position: 1, Why: "its home r3 is full", Since: t0.Add(-4 * time.Second)},
		{Session: "11bc", Position: 2, Why: "no replica has room for ~12k tokens", Since: t0.Add(-2 * time.Second)},
	}
	return st
}

func TestGolden(t *testing.T) {
	for name, picture := range pictures {
		for sizeName, size := range sizes {
			checkPicture(t, name+"-"+sizeName, picture(size), size, cell.Theme{})
		}
	}
	ascii := cell.Theme{ASCII: true}
	for sizeName, size := range sizes {
		checkPicture(t, "ascii-"+sizeName, pictures["hot"](size), size, ascii)
		checkPicture(t, "ascii-tokens-"+sizeName, pictures["tokens"](size), size, ascii)
	}
	for _, size := range []state.Size{{W: 60, H: 12}, {W: 70, H: 16}, {W: 100, H: 30}, {W: 120, H: 30}, {W: 200, H: 60}} {
		checkPicture(t, "hot-"+cell.Count(float64(size.W))+"x"+cell.Count(float64(size.H)), pictures["hot"](size), size, cell.Theme{})
	}
	for _, name := range []string{"auto", "dark", "light"} {
		theme, err := cell.NamedTheme(name, false)
		if err != nil {
			t.Fatal(err)
		}
		checkPicture(t, "colour-"+name+"-80x24", pictures["failed"](sizes["80x24"]), sizes["80x24"], theme)
	}
}

func checkPicture(t *testing.T, name string, s state.State, size state.Size, theme cell.Theme) {
	t.Helper()
	got := Render(s, size, theme)
	checkShape(t, name, got, size)
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got+"\n", "\n")); diff != "" {
		t.Errorf("%s (run with -update after a wanted change):\n%s", name, diff)
	}
}

// checkShape: exactly as many lines as the terminal, none wider, nothing that moves the cursor.
func checkShape(t *testing.T, name, got string, size state.Size) {
	t.Helper()
	lines := strings.Split(got, "\n")
	if len(lines) != size.H {
		t.Errorf("%s: %d lines, want %d", name, len(lines), size.H)
	}
	for i, l := range lines {
		if w := cell.Width(l); w > size.W {
			t.Errorf("%s line %d is %d cells wide, the terminal %d: %q", name, i+1, w, size.W, l)
		}
		for _, r := range l {
			if r < 0x20 && r != 0x1b {
				t.Errorf("%s line %d holds the control character %U", name, i+1, r)
			}
		}
	}
}

// TestEverySize draws every picture at every size: whatever is dropped, the shape holds.
func TestEverySize(t *testing.T) {
	theme, err := cell.NamedTheme("dark", false)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2)) // always the same sizes
	for name, picture := range pictures {
		s := picture(state.Size{W: 80, H: 24})
		for range 60 {
			size := state.Size{W: 1 + random.IntN(210), H: 1 + random.IntN(64)}
			if size.W >= minWidth-2 { // mostly sizes that show something
				size.H = max(size.H, minHeight)
			}
			s, _ = state.Reduce(s, state.Resized{Size: size})
			checkShape(t, name, Render(s, size, theme), size)
			if t.Failed() {
				t.Fatalf("%s at %dx%d", name, size.W, size.H)
			}
		}
	}
}

func TestNoColourMeansNoEscape(t *testing.T) {
	none, err := cell.NamedTheme("none", false)
	if err != nil {
		t.Fatal(err)
	}
	dark, err := cell.NamedTheme("dark", false)
	if err != nil {
		t.Fatal(err)
	}
	for name, picture := range pictures {
		for _, size := range sizes {
			s := picture(size)
			without, with := Render(s, size, none), Render(s, size, dark)
			if strings.Contains(without, "\x1b") {
				t.Errorf("%s holds an escape sequence without colours", name)
			}
			// Words and marks carry the meaning: colour adds nothing to read.
			if stripped := cell.Clean(strings.ReplaceAll(with, "\n", "\x00")); stripped != cell.Clean(strings.ReplaceAll(without, "\n", "\x00")) {
				t.Errorf("%s says something else in colour", name)
			}
		}
	}
}

func TestASCIIMeansASCII(t *testing.T) {
	for name, picture := range pictures {
		for _, size := range sizes {
			for _, r := range Render(picture(size), size, cell.Theme{ASCII: true}) {
				if r > 0x7e {
					t.Errorf("%s holds %q", name, r)
					break
				}
			}
		}
	}
}

func TestShortName(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA RTX A4000": "A4000", "NVIDIA GeForce RTX 5090": "5090", "NVIDIA RTX 6000 Ada Generation": "6000 Ada", "NVIDIA H200": "H200",
		"SIMULATED GPU 16GB": "SIMULATED", "Averylongsingleword": "Averylongsingleword", "": "",
	} {
		if got := shortName(name); got != want {
			t.Errorf("shortName(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestTooSmall(t *testing.T) {
	for _, size := range []state.Size{{W: 59, H: 24}, {W: 80, H: 11}, {W: 33, H: 1}} {
		if got := Render(pictures["hot"](size), size, cell.Theme{}); !strings.HasPrefix(got, "terminal too small: 60x12 needed") {
			t.Errorf("%v: %q", size, got)
		}
	}
}

func TestOnce(t *testing.T) {
	got := Once(hot(), 80, 0, cell.Theme{})
	for _, want := range []string{"4/4 ready", ">r0  ready", "r3  ready !", "all", "~67k tokens"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "q quit") || !strings.HasSuffix(got, "\n") || strings.HasSuffix(got, "\n\n\n") {
		t.Errorf("ends with %q", got[max(0, len(got)-60):])
	}
	if n := strings.Count(Once(hot(), 140, 40, cell.Theme{}), "\n"); n != 40 {
		t.Errorf("%d lines, want 40", n)
	}
}

func BenchmarkRender(b *testing.B) {
	st := hot()
	for i := 4; i < 8; i++ {
		st.Replicas = append(st.Replicas, replica(i, hotFigures[i%4]))
	}
	for i := range st.Replicas {
		for range 6 {
			st.Replicas[i].Sessions = append(st.Replicas[i].Sessions, st.Replicas[i].Sessions[:4]...)
		}
	}
	theme, err := cell.NamedTheme("dark", false)
	if err != nil {
		b.Fatal(err)
	}
	size := state.Size{W: 140, H: 40}
	s := lived(state.Top, st, size)
	for b.Loop() {
		Render(s, size, theme)
	}
}
