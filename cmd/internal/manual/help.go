// Package manual is how the command tree explains itself: help.go on a screen,
// usage.go what wrong use is told, pages.go as manual pages.
package manual

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Help fits one screen: at most 40 lines a command, examples before flags, the
// global flags in one line everywhere but at the root.

// Install makes cmd and all below it print help in warden's form.
func Install(cmd *cobra.Command) {
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { WriteHelp(cmd.OutOrStdout(), cmd) })
	cmd.SetUsageFunc(func(cmd *cobra.Command) error { return WriteUsage(cmd.OutOrStderr(), cmd) })
}

// WriteHelp prints all there is to know of cmd.
func WriteHelp(w io.Writer, cmd *cobra.Command) {
	about := cmd.Long
	if about == "" {
		about = cmd.Short + "."
	}
	fmt.Fprintln(w, strings.TrimSpace(about))
	if cmd.IsAdditionalHelpTopicCommand() {
		return
	}
	fmt.Fprintf(w, "\nUsage: %s\n", useLine(cmd))
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintln(w)
		writeCommands(w, cmd)
	}
	own := cmd.LocalFlags()
	title := "Flags:"
	if !cmd.HasParent() {
		title = "Flags of every command:"
	}
	if texts := flagTexts(own); texts != "" {
		fmt.Fprintf(w, "\n%s\n%s", title, texts)
	}
	if cmd.HasParent() {
		fmt.Fprintf(w, "\nGlobal flags: %s (see `warden help`)\n", flagNames(cmd.InheritedFlags()))
	} else {
		fmt.Fprintln(w, "`warden help COMMAND` has its flags, `warden help exit-codes` the exit codes.")
	}
}

// WriteUsage is what wrong use prints behind its error: how it is meant, and
// where the rest is.
func WriteUsage(w io.Writer, cmd *cobra.Command) error {
	help := strings.TrimSuffix(strings.TrimPrefix(cmd.CommandPath(), "warden"), " ")
	_, err := fmt.Fprintf(w, "usage: %s\n       `warden help%s` has the details\n", useLine(cmd), help)
	return err
}

func useLine(cmd *cobra.Command) string {
	line := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		line = cmd.CommandPath() + " COMMAND [flags]"
	}
	return line
}

// writeCommands lists the commands below cmd, by group: the group stands in
// front of its first command.
func writeCommands(w io.Writer, cmd *cobra.Command) {
	groups := append(cmd.Groups(), &cobra.Group{})
	wide, groupWide := 0, 0
	for _, sub := range cmd.Commands() {
		wide = max(wide, len(sub.Name()))
	}
	for _, g := range groups {
		groupWide = max(groupWide, len(g.Title))
	}
	for _, g := range groups {
		title := g.Title
		for _, sub := range cmd.Commands() {
			if sub.GroupID != g.ID || !sub.IsAvailableCommand() || sub.Name() == "help" {
				continue
			}
			line := fmt.Sprintf("%-*s  %-*s  %s", groupWide, title, wide, sub.Name(), sub.Short)
			fmt.Fprintln(w, " "+strings.TrimRight(line, " "))
			title = ""
		}
	}
}

// flagTexts lists flags, one a line. A usage text begins with the name of its
// value in back quotes where the word itself is not part of the sentence.
func flagTexts(flags *pflag.FlagSet) string {
	type row struct{ head, text string }
	var rows []row
	wide := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" { // who reads this knows it
			return
		}
		value, text := pflag.UnquoteUsage(f)
		if strings.HasPrefix(f.Usage, "`") {
			text = strings.TrimPrefix(text, value+" ")
		}
		head := "    --" + f.Name
		if f.Shorthand != "" {
			head = "-" + f.Shorthand + ", --" + f.Name
		}
		head = strings.TrimRight(head+" "+value, " ")
		wide = max(wide, len(head))
		rows = append(rows, row{head, text + defaultText(f)})
	})
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "  %-*s  %s\n", wide, r.head, r.text)
	}
	return b.String()
}

// defaultText tells a default that is worth telling.
func defaultText(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "0", "0s", "false", "[]":
		return ""
	}
	return " (default " + strings.Trim(f.DefValue, "[]") + ")"
}

func flagNames(flags *pflag.FlagSet) string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		value, _ := pflag.UnquoteUsage(f)
		names = append(names, strings.TrimRight("--"+f.Name+" "+value, " "))
	})
	return strings.Join(names, ", ")
}
