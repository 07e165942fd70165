package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/manual"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/tui"
)

// app is what every command shares: its streams and the global flags.
type app struct {
	in       io.Reader
	out, err io.Writer
	flags    globalFlags
}

type globalFlags struct {
	config string
	name   string
	color  string
	theme  string
}

// Main runs one command line and returns the exit code (exitcode.go).
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	if len(args) > 0 && strings.HasPrefix(args[0], "__") {
		if hidden, ok := hiddenCommands[args[0]]; ok {
			return hidden(args[1:], in, out, errOut)
		}
	}
	a := &app{in: in, out: out, err: errOut}
	root := a.root()
	root.SetArgs(args)
	return a.report(root.ExecuteContext(context.Background()))
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "warden",
		Short: "vLLM on every GPU of this machine, each conversation on the replica that remembers it",
		Example: `  warden up --demo                    # no GPU, no Python: four simulated replicas
  warden up --model qwen3-4b --dp 4   # one vLLM per GPU`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          onlyCommands,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.checkGlobals(cmd) }
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	manual.Install(root)
	cobra.EnableCommandSorting = false // the order below is from first used to last
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError(cmd, err) })
	pf := root.PersistentFlags()
	pf.StringVar(&a.flags.config, "config", os.Getenv("WARDEN_CONFIG"), "`PATH` configuration file, over ./warden.yaml, the user's, /etc/warden's [WARDEN_CONFIG]")
	pf.StringVar(&a.flags.name, "name", "", "`NAME` one of several wardens of this user [WARDEN_NAME] (default default)")
	pf.StringVar(&a.flags.color, "color", "auto", "`WHEN` when to use colours: always, never or auto")
	pf.StringVar(&a.flags.theme, "theme", "auto", "`SHADE` the background: auto, dark or light")
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run"},
		&cobra.Group{ID: "watch", Title: "Watch"},
		&cobra.Group{ID: "steer", Title: "Steer"},
		&cobra.Group{ID: "setup", Title: "Prepare"},
	)
	grouped := func(id string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = id
			wrapArgs(c)
			root.AddCommand(c)
		}
	}
	grouped("run", a.upCommand(), a.downCommand(), a.upgradeCommand(), a.benchCommand())
	grouped("watch", a.statusCommand(), a.topCommand(), a.adviseCommand(), a.logsCommand(), a.eventsCommand())
	grouped("steer", a.affinityCommand(), a.spillCommand(), a.restartCommand(), a.drainCommand(), a.undrainCommand(), a.killCommand(), a.retryCommand())
	grouped("setup", a.setupCommand(), a.doctorCommand(), a.envCommand(), a.keysCommand(), a.modelsCommand(), a.gpusCommand(), a.configCommand(), a.completionCommand(), a.versionCommand())
	root.AddCommand(exitCodesTopic(), a.docsCommand(), a.reapCommand())
	root.SetHelpCommand(helpCommand())
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommandGroupID("setup")
	return root
}

// wrapArgs makes wrong arguments a usage error (exit code 2), for the command
// and those below it.
func wrapArgs(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
	check := cmd.Args
	if check == nil {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError(cmd, err)
		}
		return nil
	}
}

// checkGlobals refuses values that a command would only meet when it draws.
func (a *app) checkGlobals(cmd *cobra.Command) error {
	if cmd.Flags().Changed("name") {
		if err := configs.CheckName(a.flags.name); err != nil {
			return usageError(cmd, fmt.Errorf("--name %w", err))
		}
	}
	if !slices.Contains([]string{"always", "never", "auto"}, a.flags.color) {
		return usageError(cmd, fmt.Errorf("--color %q is not one of always, never, auto", a.flags.color))
	}
	if _, err := tui.NamedTheme(a.flags.theme, false); err != nil {
		return usageError(cmd, fmt.Errorf("--theme: %w", err))
	}
	return nil
}

// theme is the alphabet and the colours for one stream.
func (a *app) theme(ascii bool, w io.Writer) (tui.Theme, error) {
	name := a.flags.theme
	if !a.colored(w) {
		name = "none"
	}
	theme, err := tui.NamedTheme(name, ascii)
	return theme, exit.Fail(exit.Usage, err, "")
}

// isTerminal says whether v is a file that shows to a person.
func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colored decides for one stream: --color, then NO_COLOR and TERM=dumb, then
// whether it is a terminal.
func (a *app) colored(w io.Writer) bool {
	switch a.flags.color {
	case "always":
		return true
	case "never":
		return false
	}
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w)
}
