// Package clients knows how each client is pointed at a warden: its variables and
// files, and the switches that keep the beginning of its prompts the same from
// turn to turn. clients.go has the form, each.go the clients.
package clients

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// Names are the clients there is a setup for.
func Names() []string {
	var names []string
	for name := range setups {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Endpoint is what a client must know of a warden.
type Endpoint struct {
	URL   string `json:"url"` // without /v1
	Model string `json:"model"`
	// ContextTokens is the model's context length; 0 while no replica has said it.
	ContextTokens int  `json:"context_tokens,omitempty"`
	Running       bool `json:"running"`
	// Keys says that warden asks for an API key; Certificate is the file that it
	// shows, "" without TLS.
	Keys        bool   `json:"keys,omitempty"`
	Certificate string `json:"certificate,omitempty"`
}

// KeyVariable is where the user puts an API key: warden knows hashes only.
const KeyVariable = "WARDEN_KEY"

// UnnamedModel stands where neither a flag nor a running warden nor the
// configuration says which model is meant.
const UnnamedModel = "MODEL"

// Reachable is the address to connect to for one that is listened on: all
// interfaces include this machine's own.
func Reachable(listen string) string {
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

// Setup is the configuration of one client.
type Setup struct {
	Client string `json:"client"`
	Endpoint
	Env   []Setting `json:"env"`
	Files []File    `json:"files"`
	// Notes are for the reader; they come before the configuration.
	Notes []string `json:"notes"`
}

// Setting is an environment variable and, unless its name says it, its reason.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Why   string `json:"why,omitempty"`
	// From is the variable that holds the value, where only the user knows it.
	From string `json:"from,omitempty"`
}

// File is a file in the client's own form, comments included.
type File struct {
	Path string `json:"path"` // below the home directory
	Text string `json:"text"`
	// mark begins a comment in it.
	mark string
}

// Of is the setup of a client, one of Names, for a warden.
func Of(client string, at Endpoint) Setup {
	s := Setup{Client: client, Endpoint: at, Env: []Setting{}, Files: []File{}, Notes: []string{}}
	if at.Model == UnnamedModel {
		s.Notes = append(s.Notes, "Put the model's name in the place of "+UnnamedModel+", or name it with --model.")
	}
	if at.Keys {
		s.Notes = append(s.Notes, "warden asks for an API key: `export "+KeyVariable+"=...` first; `warden keys add NAME` makes one.")
	}
	if at.Certificate != "" {
		s.Notes = append(s.Notes, "Where no authority that this machine trusts has signed "+at.Certificate+": `export NODE_EXTRA_CA_CERTS="+at.Certificate+"` (Codex: SSL_CERT_FILE).")
	}
	if at.ContextTokens == 0 {
		s.Notes = append(s.Notes, "The context length is not known before a replica is ready; run this again then, so that the client compacts in time.")
	}
	setups[client](&s)
	return s
}

// Text is the configuration as its reader pastes it: all that is not part of
// it is a comment.
func (s Setup) Text() string {
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
		value := shellQuote(v.Value)
		if v.From != "" {
			value = fmt.Sprintf(`"${%s:?put one of the keys of warden into it}"`, v.From) // stops an eval
		}
		fmt.Fprintf(&b, "export %s=%s\n", v.Name, value)
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
