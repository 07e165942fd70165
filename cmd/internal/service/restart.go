package service

import "slices"

// NoRestart are the exit codes that a restart cannot cure; they stand in the
// unit file too.
var NoRestart = []string{"2", "4"} // exit.Usage, exit.Config

// RestartFollows says whether systemd starts the service again after it ended
// like this (systemd.exec(5), Restart=on-failure). A stop that took too long
// counts as an end: its engines hang, or warden did.
func RestartFollows(result, status string) bool {
	switch result {
	case "", "success", "timeout", "start-limit-hit":
		return false
	case "exit-code":
		return !slices.Contains(NoRestart, status)
	}
	return true // signal, core-dump, watchdog, oom-kill, protocol, resources
}
