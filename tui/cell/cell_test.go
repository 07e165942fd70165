package cell

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
)

func TestUnits(t *testing.T) {
	tests := []struct{ got, want string }{
		{Count(0), "0"}, {Count(412), "412"}, {Count(999.4), "999"}, {Count(999.6), "1k"}, {Count(3100), "3.1k"},
		{Count(67000), "67k"}, {Count(12100), "12.1k"}, {Count(99960), "100k"}, {Count(999_600), "1M"}, {Count(1.25e6), "1.2M"},
		{Count(5e12), "5T"}, {Count(-40), "-40"}, {Count(math.NaN()), "-"}, {Count(math.Inf(1)), "-"},
		{Rate(0), "0"}, {Rate(1.94), "1.9"}, {Rate(12), "12"}, {Rate(0.04), "0.0"},
		{Bytes(0), "0B"}, {Bytes(1023), "1023B"}, {Bytes(1536), "1.5K"}, {Bytes(15676630630), "14.6G"}, {Bytes(200 << 30), "200G"}, {Bytes(3 << 40), "3.0T"},
		{Percent(0), "0%"}, {Percent(0.976), "98%"}, {Percent(1), "100%"}, {Percent(math.NaN()), "-"},
		{Seconds(0), "0.00s"}, {Seconds(0.284), "0.28s"}, {Seconds(9.996), "10.0s"}, {Seconds(12.34), "12.3s"}, {Seconds(125), "2m"}, {Seconds(-1), "-"}, {Seconds(math.NaN()), "-"},
		{Age(-time.Second), "0s"}, {Age(59 * time.Second), "59s"}, {Age(12*time.Minute + 59*time.Second), "12m"},
		{Age(134 * time.Minute), "2h14m"}, {Age(47*time.Hour + 5*time.Minute), "47h05m"}, {Age(49 * time.Hour), "2d"},
		{Clock(-1), "0:00"}, {Clock(38 * time.Second), "0:38"}, {Clock(725 * time.Second), "12:05"}, {Clock(time.Hour), "1:00:00"},
	}
	for i, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("case %d: got %q, want %q", i, tt.got, tt.want)
		}
	}
}

func TestPadding(t *testing.T) {
	for _, s := range []string{"", "abc", "abcdef", "abcdefghij", "日本語テキスト", "é́é", "▁▂▃", "\x1b[31mred and long\x1b[0m"} {
		for w := range 12 {
			if got := Width(Left(s, w, false)); got != w {
				t.Errorf("Left(%q, %d) is %d wide", s, w, got)
			}
			if got := Width(Right(s, w, true)); got != w {
				t.Errorf("Right(%q, %d) is %d wide", s, w, got)
			}
		}
	}
	if got := Cut("abcdef", 4, false); got != "abc…" {
		t.Errorf("Cut: %q", got)
	}
	if got := Cut("abcdef", 4, true); got != "abc~" {
		t.Errorf("Cut in ASCII: %q", got)
	}
}

// TestWidthAgrees holds the quick rule against the full one.
func TestWidthAgrees(t *testing.T) {
	for _, s := range []string{"", "plain", "▁▂▃ █░ ─│…", "71 °C ↑↓", "\x1b[31mred\x1b[0m and \x1b[1;93mmore\x1b[0m", "\x1b[2J", "\x1b[31", "日本", "e\u0301", "█\u0301", "a\tb"} {
		if got, want := Width(s), ansi.StringWidth(s); got != want {
			t.Errorf("Width(%q) = %d, the full rule says %d", s, got, want)
		}
	}
	for r := rune(0x20); r < 0x2700; r++ {
		if got, want := Width(string(r)), ansi.StringWidth(string(r)); got != want {
			t.Errorf("Width(%q) = %d, the full rule says %d", r, got, want)
		}
	}
}

func TestCleanKeepsTheTerminalSafe(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                           "plain",
		"tab\there":                       "tab here",
		"\x1b[2J\x1b[31mred\x1b[0m":       "red",
		"\x1b]0;owned\x07title":           "title",
		"back\b\b\bspace\r":               "backspace",
		"c1 \u009b31m":                    "c1 31m",
		"bidi \u202edesrever":             "bidi desrever",
		"bad \xff\xfe utf8":               "bad ? utf8",
		"zero\u200bwidth":                 "zerowidth",
		"line\u2028separator":             "lineseparator",
		"ünïcode 日本":                      "ünïcode 日本",
		"\x9b31mraw c1":                   "?31mraw c1",
		"\x1bPq device control \x1b\\end": "end",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"plain", "\x1b[31m", "\x1b]8;;http://x\x07link", "\x9b1m", "a\tb", "\xff", "日本\u202e", "\x1b\x1b[[mm", "\x1b[3\x1b[1mm"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		if !utf8.ValidString(got) {
			t.Fatalf("Clean(%q) is not UTF-8: %q", s, got)
		}
		for _, r := range got {
			if r < 0x20 || r >= 0x7f && r < 0xa0 || r == '\u202e' {
				t.Fatalf("Clean(%q) keeps %U", s, r)
			}
		}
		if again := Clean(got); again != got {
			t.Fatalf("Clean is not stable: %q then %q", got, again)
		}
		for _, w := range []int{0, 1, 7, 80} {
			if n := Width(Left(got, w, false)); n != w {
				t.Fatalf("Left(Clean(%q), %d) is %d wide", s, w, n)
			}
		}
	})
}

func TestBar(t *testing.T) {
	for _, tt := range []struct {
		ratio float64
		want  string
	}{
		{0, ".........."}, {0.001, "#........."}, {0.5, "#####....."}, {0.97, "#########."}, {0.996, "##########"},
		{1, "##########"}, {3, "##########"}, {-1, ".........."}, {math.NaN(), "          "},
	} {
		if got := Bar(tt.ratio, 10, true); got != tt.want {
			t.Errorf("Bar(%v) = %q, want %q", tt.ratio, got, tt.want)
		}
	}
	if got := Bar(0.5, 4, false); got != "██░░" {
		t.Errorf("Bar: %q", got)
	}
	if Bar(0.5, 0, false) != "" || Bar(0.5, -1, false) != "" {
		t.Error("a bar without room must be empty")
	}
}

func TestSpark(t *testing.T) {
	if got := Spark([]float64{0, 1, 4, 8, 9, Gap(), 0.1}, 8, false); got != "▁▁▄██ ▁" {
		t.Errorf("got %q", got)
	}
	if got := Spark([]float64{0, 1, 4, 8, Gap()}, 8, true); got != "__.^ " {
		t.Errorf("got %q", got)
	}
	if got := Spark([]float64{5, 0}, 0, false); got != "▁▁" {
		t.Errorf("no scale: %q", got)
	}
}

func TestStacked(t *testing.T) {
	columns := []Column{{4, 0}, {2, 2}, {0, 4}, {0, 0}, {Gap(), Gap()}, {0.1, 0}, {0, 0.1}, {1, 1}}
	want := []string{
		"#..     ",
		"#..     ",
		"##.    .",
		"##.  #.#",
	}
	if diff := cmp.Diff(want, Stacked(columns, 4, 4, true)); diff != "" {
		t.Error(diff)
	}
	if got := strings.Join(Stacked(columns[:3], 1, 0, false), ""); got != "   " {
		t.Errorf("no scale: %q", got)
	}
}
