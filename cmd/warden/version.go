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
	cmd := &cobra.Command{Use: "version", Short: "Print the version", Args: noArgs, Example: "  warden version --json"}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" {
					v["commit"] = s.Value
				}
			}
		}
		v["daemon"] = a.daemonVersion(cmd.Context())
		if *asJSON {
			return a.printJSON(v)
		}
		fmt.Fprintf(a.out, "warden %s %s %s\n", v["version"], v["go"], v["platform"])
		if v["daemon"] != "" && v["daemon"] != version {
			fmt.Fprintf(a.out, "the running warden is %s: restart it to use this one\n", v["daemon"])
		}
		return nil
	}
	return cmd
}

// daemonVersion is the version of the running warden, "" when none runs.
func (a *app) daemonVersion(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	var running string
	_ = a.ask(ctx, func(ctx context.Context, c *control.Client) error { // none running is no error here
		v, err := c.Version(ctx)
		running = v.Version
		return err
	})
	return running
}
