package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/tui"
)

// WritePages writes one page a command; that of warden itself also has what
// concerns all of them.
func WritePages(root *cobra.Command, dir, version string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "warden " + version, Manual: "LM Warden"}, dir); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "warden.1"), os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(manualEnd())
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// manualEnd is what warden(1) says besides its commands, in roff.
func manualEnd() string {
	var b strings.Builder
	section := func(name string, rows [][2]string) {
		fmt.Fprintf(&b, ".SH %s\n", name)
		for _, row := range rows {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fP\n%s\n", roff(row[0]), roff(row[1]))
		}
	}
	var codes [][2]string
	for _, m := range exit.Meanings() {
		codes = append(codes, [2]string{fmt.Sprint(m.Code), m.Text})
	}
	section("EXIT STATUS", codes)
	section("KEYS OF THE DASHBOARD", tui.Keys())
	section("FILES", [][2]string{
		{"./warden.yaml", "configuration of this directory, over"},
		{"$XDG_CONFIG_HOME/warden/config.yaml", "that of the user (~/.config), over"},
		{"/etc/warden/config.yaml", "that of the machine; `warden config example` prints every key"},
		{"$XDG_STATE_HOME/warden/NAME/", "logs, and how long starts took (~/.local/state)"},
		{"$XDG_RUNTIME_DIR/warden/NAME/control.sock", "the control socket; without XDG_RUNTIME_DIR in /tmp/warden-UID/NAME"},
	})
	environment := [][2]string{
		{"WARDEN_CONFIG", "configuration file, as --config"},
		{"WARDEN_BENCH_API_KEY", "bearer token of `warden bench`"},
		{"NO_COLOR", "no colours when not empty; so does TERM=dumb"},
		{"HF_TOKEN", "passed on to vLLM: access to gated models"},
	}
	for _, v := range configs.Default().Values() {
		if v.Key != "models" && v.Key != "catalogue" { // lists that only a file can hold
			environment = append(environment, [2]string{configs.EnvName(v.Key), "the key " + configs.Dotted(v.Key)})
		}
	}
	section("ENVIRONMENT", environment)
	return b.String()
}

// roff makes text safe as a line of roff.
func roff(text string) string {
	text = strings.ReplaceAll(text, `\`, `\e`)
	text = strings.ReplaceAll(text, "-", `\-`)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	var b strings.Builder
	for _, r := range text {
		if r < 0x80 {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	return b.String()
}

// ExitCodes is the help topic of that name.
func ExitCodes() string {
	text := "Exit codes of every command:\n\n"
	for _, m := range exit.Meanings() {
		text += fmt.Sprintf("  %-4d %s\n", m.Code, m.Text)
	}
	return text
}
