package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/supervisor/control"
)

func (a *app) envCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "env {" + strings.Join(clientNames(), "|") + "}",
		Short: "Print how to point a client at warden",
		Long: `Prints the configuration of a client for the running warden, ready to paste:
address, model and context length, and the switches that keep the beginning of
its prompts the same from turn to turn, so that the prefix cache can be used.`,
		Example:   "  eval \"$(warden env claude-code)\" && claude\n  warden env codex >~/.codex/warden.config.toml && codex --profile warden",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: clientNames(),
	}
	model := cmd.Flags().String("model", "", "the model to ask for, by `NAME`, when several are served")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("model", a.completeServed())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		at, err := a.endpoint(cmd.Context(), *model)
		if err != nil {
			return err
		}
		s := setupOf(args[0], at)
		if *asJSON {
			return a.printJSON(s)
		}
		_, err = fmt.Fprint(a.out, s.text())
		return err
	}
	return cmd
}

func clientNames() []string {
	var names []string
	for name := range clientSetups {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// endpoint is what a client must know of a warden.
type endpoint struct {
	URL   string `json:"url"` // without /v1
	Model string `json:"model"`
	// ContextTokens is the model's context length; 0 while no replica has said it.
	ContextTokens int  `json:"context_tokens,omitempty"`
	Running       bool `json:"running"`
}

// unnamedModel stands where neither a flag nor a running warden nor the
// configuration says which model is meant.
const unnamedModel = "MODEL"

// endpoint describes the running warden, or without one what the configuration
// would start.
func (a *app) endpoint(ctx context.Context, model string) (at endpoint, err error) {
	err = a.ask(ctx, func(ctx context.Context, c *control.Client) error {
		status, err := c.Status(ctx)
		if err != nil {
			return err
		}
		m, err := findModel(status, model)
		at = endpoint{URL: reachable(status.Listen), Model: m.Alias, ContextTokens: m.MaxModelLen, Running: true}
		return err
	})
	if !errors.Is(err, control.ErrNoDaemon) {
		return at, err
	}
	loaded, err := a.loadConfig(nil)
	if err != nil {
		return endpoint{}, err
	}
	cfg := loaded.Config
	if model == "" && len(cfg.Models) == 1 {
		model = cfg.Models[0].Alias
	}
	return endpoint{URL: reachable("http://" + cfg.Listen), Model: cmp.Or(model, unnamedModel)}, nil
}

// reachable is the address to connect to for one that is listened on: all
// interfaces include this machine's own.
func reachable(listen string) string {
	u, err := url.Parse(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsUnspecified() {
		host := "127.0.0.1"
		if ip.To4() == nil {
			host = "::1"
		}
		u.Host = net.JoinHostPort(host, u.Port())
	}
	return u.String()
}

// clientSetup is the configuration of one client.
type clientSetup struct {
	Client string `json:"client"`
	endpoint
	Env   []setting   `json:"env"`
	Files []setupFile `json:"files"`
	// Notes are for the reader; they come before the configuration.
	Notes []string `json:"notes"`
}

// setting is an environment variable and, unless its name says it, its reason.
type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Why   string `json:"why,omitempty"`
}

// setupFile is a file in the client's own form, comments included.
type setupFile struct {
	Path string `json:"path"` // below the home directory
	Text string `json:"text"`
	// mark begins a comment in it.
	mark string
}

func setupOf(client string, at endpoint) clientSetup {
	s := clientSetup{Client: client, endpoint: at, Env: []setting{}, Files: []setupFile{}, Notes: []string{}}
	if at.Model == unnamedModel {
		s.Notes = append(s.Notes, "Put the model's name in the place of "+unnamedModel+", or name it with --model.")
	}
	if at.ContextTokens == 0 {
		s.Notes = append(s.Notes, "The context length is not known before a replica is ready; run this again then, so that the client compacts in time.")
	}
	clientSetups[client](&s)
	return s
}

// text is the configuration as its reader pastes it: all that is not part of
// it is a comment.
func (s clientSetup) text() string {
	var b strings.Builder
	mark := "#"
	if len(s.Files) > 0 {
		mark = s.Files[0].mark
	}
	comment := func(text string) { fmt.Fprintf(&b, "%s %s\n", mark, text) }
	if s.Running {
		comment(fmt.Sprintf("%s with %s of the warden at %s", s.Client, s.Model, s.URL))
	} else {
		comment("No warden is running: this is what the configuration says. Start it with `warden up`, then run this again.")
	}
	for _, f := range s.Files {
		comment("Goes into ~/" + f.Path)
	}
	for _, note := range s.Notes {
		comment(note)
	}
	for _, v := range s.Env {
		if v.Why != "" {
			comment(v.Why)
		}
		fmt.Fprintf(&b, "export %s=%s\n", v.Name, shellQuote(v.Value))
	}
	for _, f := range s.Files {
		b.WriteString(f.Text)
	}
	return b.String()
}

// shellQuote makes one word of s for a POSIX shell.
func shellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("-_./:@%+=,", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
