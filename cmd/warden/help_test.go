package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lm-warden/warden/cmd/internal/manual"
)

// The screen a command's help must fit: 40 lines, and what a wide terminal has.
const (
	helpLines = 40
	helpWidth = 120
)

var example = regexp.MustCompile(`(?m)^Examples:\n  .*warden`)

func eachCommand(t *testing.T, f func(*testing.T, *cobra.Command)) {
	t.Helper()
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		t.Run(strings.ReplaceAll(cmd.CommandPath(), " ", "-"), func(t *testing.T) { f(t, cmd) })
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	root := (&app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}).root()
	root.InitDefaultHelpCmd()
	walk(root)
}

func TestHelpFitsOneScreenAndShowsAnExample(t *testing.T) {
	eachCommand(t, func(t *testing.T, cmd *cobra.Command) {
		var b bytes.Buffer
		cmd.InitDefaultHelpFlag()
		manual.WriteHelp(&b, cmd)
		lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
		if len(lines) > helpLines {
			t.Errorf("%d lines of help, at most %d fit", len(lines), helpLines)
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > helpWidth {
				t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
			}
		}
		if topic := cmd.IsAdditionalHelpTopicCommand() || cmd.Name() == "help"; !topic && !cmd.Hidden && !example.MatchString(b.String()) {
			t.Error("no example")
		}
		if cmd.Short == "" {
			t.Error("nothing says what it does")
		}
		if strings.Count(cmd.Example, "\n") > 2 {
			t.Error("more than three examples")
		}
	})
}

// A flag's line has a name for its value, and the environment variable where
// the flag stands for a configuration key.
func TestFlagsExplainThemselves(t *testing.T) {
	eachCommand(t, func(t *testing.T, cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			value, text := pflag.UnquoteUsage(f)
			if text == "" {
				t.Errorf("--%s says nothing", f.Name)
			}
			if value != "" && value != strings.ToUpper(value) {
				t.Errorf("--%s: its value is called %q, give it a name in back quotes", f.Name, value)
			}
			if _, ok := configFlags[f.Name]; ok && cmd.Name() == "up" && !strings.Contains(text, "[WARDEN_") {
				t.Errorf("--%s does not name its environment variable", f.Name)
			}
		})
	})
}

var foreign = regexp.MustCompile(`(?i)\b(workers?|backends?|instances?|pods?)\b`)

// foreignWords finds the words that our glossary has others for: a replica is
// no worker, backend, instance or pod.
func foreignWords(text string) []string {
	var found []string
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "vllm:") || strings.HasPrefix(line, "# HELP vllm:") {
			continue // the engine's own
		}
		found = append(found, foreign.FindAllString(line, -1)...)
	}
	return found
}

func TestForeignWordsAreFound(t *testing.T) {
	if got := foreignWords("a Worker, two pods\nvllm:instance 1\nPodwarden"); fmt.Sprint(got) != "[Worker pods]" {
		t.Errorf("found %v", got)
	}
}

// What users read speaks one language: help, README, example files, screens.
func TestTextsUseOurWords(t *testing.T) {
	eachCommand(t, func(t *testing.T, cmd *cobra.Command) {
		var b bytes.Buffer
		manual.WriteHelp(&b, cmd)
		if found := foreignWords(b.String()); len(found) > 0 {
			t.Errorf("help says %q", found)
		}
	})
	root := filepath.Join("..", "..")
	for _, pattern := range []string{"README.md", "configs/*.yaml", "configs/*.json", "tui/screen/testdata/*.golden", "configs/*/*.service"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 && !strings.HasSuffix(pattern, ".service") {
			t.Fatalf("%s: no files (%v)", pattern, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if found := foreignWords(string(content)); len(found) > 0 {
				t.Errorf("%s says %q", file, found)
			}
		}
	}
}

// The manual has a page for every command, with its examples and exit codes.
func TestManualPages(t *testing.T) {
	dir := t.TempDir()
	a := &app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	root := a.root()
	root.SetArgs([]string{"docs", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	eachCommand(t, func(t *testing.T, cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "help" || cmd.IsAdditionalHelpTopicCommand() {
			return
		}
		page := filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1")
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{".TH \"WARDEN", ".SH NAME"} {
			if !strings.Contains(string(content), want) {
				t.Errorf("the page lacks %q", want)
			}
		}
		if cmd.Example != "" && !strings.Contains(string(content), ".SH EXAMPLE") {
			t.Error("the page lacks the examples")
		}
		if found := foreignWords(string(content)); len(found) > 0 {
			t.Errorf("the page says %q", found)
		}
		if home, err := os.UserHomeDir(); err == nil && len(home) > 1 && strings.Contains(strings.ReplaceAll(string(content), `\-`, "-"), home) {
			t.Errorf("the page names this machine's %s", home)
		}
	})
	main, err := os.ReadFile(filepath.Join(dir, "warden.1"))
	if err != nil {
		t.Fatal(err)
	}
	if i := bytes.IndexFunc(main, func(r rune) bool { return r > 0x7f }); i >= 0 {
		t.Errorf("warden.1 has a letter that roff does not take at byte %d", i)
	}
	for _, want := range []string{".SH EXIT STATUS", "130", ".SH KEYS", "affinity", ".SH FILES", ".SH ENVIRONMENT"} {
		if !strings.Contains(string(main), want) {
			t.Errorf("warden.1 lacks %q", want)
		}
	}
}
