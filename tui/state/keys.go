package state

import (
	"slices"

	"github.com/lm-warden/warden/tui/cell"
)

// where says on which screens a key works.
type where int

const (
	onMain where = 1 << iota
	onDetail
	onLog
	onHelp
	everywhere = onMain | onDetail | onLog | onHelp
)

// Binding is one key: what it does, and how footer and help call it. Declared once, here.
type Binding struct {
	keys   []string
	label  string // as the footer names it
	ascii  string // the same without box characters; "" = label
	Foot   string // footer word; "" = help only
	Prio   int    // the footer drops high numbers first
	Help   string // "" = told with the key before it
	where  where
	footOn where // screens whose footer names it; 0 = where
	Writes bool  // changes something in the daemon: not with --view
	act    func(State) (State, Intent)
}

func (b Binding) has(key string) bool { return slices.Contains(b.keys, key) }

func (b Binding) on(s State) bool {
	return b.where&(1<<s.Screen) != 0 && !(b.Writes && s.ReadOnly)
}

// InFooter reports whether the footer of the present screen names the key.
func (b Binding) InFooter(s State) bool {
	return b.Foot != "" && b.on(s) && (b.footOn == 0 || b.footOn&(1<<s.Screen) != 0)
}

// Name is the key as the footer and help write it.
func (b Binding) Name(t cell.Theme) string {
	if t.ASCII && b.ascii != "" {
		return b.ascii
	}
	return b.label
}

// Keys describes every key for a manual page: label, then what it does.
func Keys() [][2]string {
	var out [][2]string
	for _, b := range Bindings {
		if b.Help != "" {
			out = append(out, [2]string{b.label, b.Help})
		}
	}
	return out
}

// only makes an action of a change that asks for nothing.
func only(change func(State) State) func(State) (State, Intent) {
	return func(s State) (State, Intent) { return change(s), Intent{} }
}

// bindings in the order of footer and help.
var Bindings = []Binding{
	{keys: []string{"up", "k"}, label: "↑↓", ascii: "j/k", Foot: "select", Prio: 1, Help: "select a row, or scroll; also j and k", where: everywhere,
		act: only(func(s State) State { return s.move(-1) })},
	{keys: []string{"down", "j"}, label: "↓", where: everywhere,
		act: only(func(s State) State { return s.move(1) })},
	{keys: []string{"pgup", "b"}, label: "PgUp", Help: "scroll the panel or screen back by a page; also b", where: everywhere,
		act: only(func(s State) State { return s.page(-1) })},
	{keys: []string{"pgdown", "ctrl+f"}, label: "PgDn", Help: "scroll the panel or screen on by a page", where: everywhere,
		act: only(func(s State) State { return s.page(1) })},
	{keys: []string{"enter"}, label: "enter", Foot: "detail", Prio: 2, Help: "everything about the selected replica", where: onMain,
		act: only(func(s State) State { return s.open(DetailScreen) })},
	{keys: []string{"esc"}, label: "esc", Foot: "back", Prio: 1, Help: "back: closes a screen, a search, the explanation, the filter", where: everywhere,
		footOn: onDetail | onLog | onHelp, act: only(State.escape)},
	{keys: []string{"tab"}, label: "tab", Foot: "panel", Prio: 4, Help: "next panel: overview, prompt tokens, sessions, last 60 s, events", where: onMain,
		act: only(func(s State) State { return s.turn(1) })},
	{keys: []string{"shift+tab"}, label: "shift+tab", Help: "previous panel", where: onMain,
		act: only(func(s State) State { return s.turn(-1) })},
	{keys: []string{"l"}, label: "l", Foot: "logs", Prio: 2, Help: "the engine's log of the selected replica", where: onMain | onDetail,
		act: only(func(s State) State { return s.open(LogScreen) })},
	{keys: []string{"f"}, label: "f", Foot: "follow", Prio: 2, Help: "in the log: follow its end, or stop following", where: onLog,
		act: only(func(s State) State { s.Log.Follow, s.Log.Up = !s.Log.Follow, 0; return s })},
	{keys: []string{"w"}, label: "w", Foot: "wrap", Prio: 2, Help: "in the log: wrap long lines, or cut them", where: onLog,
		act: only(func(s State) State { s.Log.Wrap = !s.Log.Wrap; return s })},
	{keys: []string{"a"}, label: "a", Foot: "affinity", Prio: 2, Help: "turn affinity of the selected replica's model on or off", where: onMain | onDetail, Writes: true,
		act: State.toggleAffinity},
	{keys: []string{"R"}, label: "R", Foot: "restart", Prio: 3, Help: "restart the selected replica (asks); try again where it gave up", where: onMain | onDetail, Writes: true,
		act: State.restart},
	{keys: []string{"D"}, label: "D", Foot: "drain", Prio: 3, Help: "drain the selected replica (asks), or take the drain back", where: onMain | onDetail, Writes: true,
		act: State.drain},
	{keys: []string{"s"}, label: "s", Foot: "sort", Prio: 5, Help: "sort rows by the next of ID, REQ, WAIT, KV, HIT, TTFT", where: onMain,
		act: only(func(s State) State { s.Sort = (s.Sort + 1) % Orders; return s })},
	{keys: []string{"/"}, label: "/", Foot: "filter", Prio: 5, Help: "show only rows, sessions and events with a text", where: onMain,
		act: only(func(s State) State { s.Input = &Input{Text: s.Filter}; return s })},
	{keys: []string{"/"}, label: "/", Foot: "search", Prio: 2, Help: "in the log: show only lines with a text", where: onLog,
		act: only(func(s State) State { s.Input = &Input{Logs: true, Text: s.Log.Search}; return s })},
	{keys: []string{" "}, label: "space", Foot: "pause", Prio: 5, Help: "freeze the screen; the daemon goes on", where: everywhere, act: only(State.pause)},
	{keys: []string{"e"}, label: "e", Foot: "explain", Prio: 4, Help: "what is wrong, how one can see it, what would help", where: onMain,
		act: only(func(s State) State { s.Explain, s.Scroll = !s.Explain, 0; return s })},
	{keys: []string{"?"}, label: "?", Foot: "help", Prio: 1, Help: "keys and the meaning of the columns", where: everywhere &^ onHelp,
		act: only(func(s State) State { return s.open(HelpScreen) })},
	{keys: []string{"q"}, label: "q", Foot: "quit", Prio: 0, Help: "leave; in `warden up` it asks whether to stop the replicas", where: everywhere, act: State.quit},
}
