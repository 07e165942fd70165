package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/supervisor/control"
)

// version is set by the release build; otherwise build information speaks.
var version = "0.1.0-dev"

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print the versions of this program and of the running warden", Args: noArgs, Example: "  warden version --json"}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := versionInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Commit: revision()}
		running := a.daemonVersion(cmd.Context())
		if *asJSON {
			return a.printJSON(struct {
				Schema int `json:"schema"`
				versionInfo
				Daemon *control.Version `json:"daemon,omitempty"`
			}{control.Schema, v, running})
		}
		fmt.Fprintf(a.out, "warden %s %s %s %s\n", v.Version, orNone(v.Commit), v.Go, v.Platform)
		if running == nil {
			return nil
		}
		fmt.Fprintf(a.out, "running: warden %s, pid %d, vLLM %s, driver %s\n", running.Version, running.PID,
			orNone(running.Details["vllm"]), orNone(running.Details["driver"]))
		if running.Version != v.Version {
			fmt.Fprintln(a.out, "the running warden is another version: start it anew to use this one")
		}
		return nil
	}
	return cmd
}

// versionInfo is what this program knows of itself.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// orNone is "-" for what is not known.
func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// revision is the commit that this program was built from, "" when the build
// did not note it.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

// daemonVersion is the version of the running warden, nil when none answers.
func (a *app) daemonVersion(ctx context.Context) *control.Version {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	var running *control.Version
	_ = a.ask(ctx, func(ctx context.Context, c *control.Client) error { // none running is no error here
		v, err := c.Version(ctx)
		if err == nil {
			running = &v
		}
		return err
	})
	return running
}
