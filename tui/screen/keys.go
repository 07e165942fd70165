package screen

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

// binding is one key: what it does, and how footer and help call it. Declared once, here.
type binding struct {
	keys   []string
	label  string // as the footer names it
	ascii  string // the same without box characters; "" = label
	foot   string // footer word; "" = help only
	prio   int    // the footer drops high numbers first
	help   string // "" = told with the key before it
	where  where
	footOn where // screens whose footer names it; 0 = where
	writes bool  // changes something in the daemon: not with --view
	act    func(State) (State, Intent)
}

func (b binding) has(key string) bool { return slices.Contains(b.keys, key) }

func (b binding) on(s State) bool {
	return b.where&(1<<s.screen) != 0 && !(b.writes && s.readOnly)
}

// inFooter reports whether the footer of the present screen names the key.
func (b binding) inFooter(s State) bool {
	return b.foot != "" && b.on(s) && (b.footOn == 0 || b.footOn&(1<<s.screen) != 0)
}

// name is the key as the footer and help write it.
func (b binding) name(t cell.Theme) string {
	if t.ASCII && b.ascii != "" {
		return b.ascii
	}
	return b.label
}

// Keys describes every key for a manual page: label, then what it does.
func Keys() [][2]string {
	var out [][2]string
	for _, b := range bindings {
		if b.help != "" {
			out = append(out, [2]string{b.label, b.help})
		}
	}
	return out
}

// only makes an action of a change that asks for nothing.
func only(change func(State) State) func(State) (State, Intent) {
	return func(s State) (State, Intent) { return change(s), Intent{} }
}

// bindings in the order of footer and help.
var bindings = []binding{
	{keys: []string{"up", "k"}, label: "↑↓", ascii: "j/k", foot: "select", prio: 1, help: "select a row, or scroll; also j and k", where: everywhere,
		act: only(func(s State) State { return s.move(-1) })},
	{keys: []string{"down", "j"}, label: "↓", where: everywhere,
		act: only(func(s State) State { return s.move(1) })},
	{keys: []string{"pgup", "b"}, label: "PgUp", help: "scroll the panel or screen back by a page; also b", where: everywhere,
		act: only(func(s State) State { return s.page(-1) })},
	{keys: []string{"pgdown", "ctrl+f"}, label: "PgDn", help: "scroll the panel or screen on by a page", where: everywhere,
		act: only(func(s State) State { return s.page(1) })},
	{keys: []string{"enter"}, label: "enter", foot: "detail", prio: 2, help: "everything about the selected replica", where: onMain,
		act: only(func(s State) State { return s.open(screenDetail) })},
	{keys: []string{"esc"}, label: "esc", foot: "back", prio: 1, help: "back: closes a screen, a search, the explanation, the filter", where: everywhere,
		footOn: onDetail | onLog | onHelp, act: only(State.escape)},
	{keys: []string{"tab"}, label: "tab", foot: "panel", prio: 4, help: "next panel: overview, prompt tokens, sessions, last 60 s, events", where: onMain,
		act: only(func(s State) State { return s.turn(1) })},
	{keys: []string{"shift+tab"}, label: "shift+tab", help: "previous panel", where: onMain,
		act: only(func(s State) State { return s.turn(-1) })},
	{keys: []string{"l"}, label: "l", foot: "logs", prio: 2, help: "the engine's log of the selected replica", where: onMain | onDetail,
		act: only(func(s State) State { return s.open(screenLog) })},
	{keys: []string{"f"}, label: "f", foot: "follow", prio: 2, help: "in the log: follow its end, or stop following", where: onLog,
		act: only(func(s State) State { s.log.follow, s.log.up = !s.log.follow, 0; return s })},
	{keys: []string{"w"}, label: "w", foot: "wrap", prio: 2, help: "in the log: wrap long lines, or cut them", where: onLog,
		act: only(func(s State) State { s.log.wrap = !s.log.wrap; return s })},
	{keys: []string{"a"}, label: "a", foot: "affinity", prio: 2, help: "turn affinity of the selected replica's model on or off", where: onMain | onDetail, writes: true,
		act: State.toggleAffinity},
	{keys: []string{"R"}, label: "R", foot: "restart", prio: 3, help: "restart the selected replica (asks); try again where it gave up", where: onMain | onDetail, writes: true,
		act: State.restart},
	{keys: []string{"D"}, label: "D", foot: "drain", prio: 3, help: "drain the selected replica (asks), or take the drain back", where: onMain | onDetail, writes: true,
		act: State.drain},
	{keys: []string{"s"}, label: "s", foot: "sort", prio: 5, help: "sort rows by the next of ID, REQ, WAIT, KV, HIT, TTFT", where: onMain,
		act: only(func(s State) State { s.sort = (s.sort + 1) % orders; return s })},
	{keys: []string{"/"}, label: "/", foot: "filter", prio: 5, help: "show only rows, sessions and events with a text", where: onMain,
		act: only(func(s State) State { s.input = &input{text: s.filter}; return s })},
	{keys: []string{"/"}, label: "/", foot: "search", prio: 2, help: "in the log: show only lines with a text", where: onLog,
		act: only(func(s State) State { s.input = &input{logs: true, text: s.log.search}; return s })},
	{keys: []string{" "}, label: "space", foot: "pause", prio: 5, help: "freeze the screen; the daemon goes on", where: everywhere, act: only(State.pause)},
	{keys: []string{"e"}, label: "e", foot: "explain", prio: 4, help: "what is wrong, how one can see it, what would help", where: onMain,
		act: only(func(s State) State { s.explain, s.scroll = !s.explain, 0; return s })},
	{keys: []string{"?"}, label: "?", foot: "help", prio: 1, help: "keys and the meaning of the columns", where: everywhere &^ onHelp,
		act: only(func(s State) State { return s.open(screenHelp) })},
	{keys: []string{"q"}, label: "q", foot: "quit", prio: 0, help: "leave; in `warden up` it asks whether to stop the replicas", where: everywhere, act: State.quit},
}
