package state

import (
	"cmp"
	"slices"

	"github.com/charmbracelet/bubbles/key"
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

// binding is what a key does, and how footer and help page call it. Declared once, in bindings: what is obeyed and what
// is told cannot differ.
type binding struct {
	key.Binding        // its help is the help page's; without words it is told with the binding before it
	ascii       string // the label without box characters; "" = the same
	foot        string // footer word; "" = help page only
	footOff     string // the word away from the main screen; "" = the same
	prio        int    // the footer drops high numbers first, 0 never
	where       where
	footOn      where // screens whose footer names it; 0 = where
	writes      bool  // changes something in the daemon: not with --view
	act         func(State) (State, Intent)
}

// on returns the binding enabled where it works: a disabled one is neither obeyed nor told.
func (b binding) on(s State) binding {
	b.SetEnabled(b.where&(1<<s.Screen) != 0 && b.allowed(s))
	return b
}

func (b binding) allowed(s State) bool { return !(b.writes && s.ReadOnly) }

// says is the key with other words, as an alphabet can write it.
func (b binding) says(words string, ascii bool) key.Binding {
	label := b.Help().Key
	if ascii && b.ascii != "" {
		label = b.ascii
	}
	b.SetHelp(label, words)
	return b.Binding
}

// FooterKeys are the keys of the present screen for its footer: as many as fit, without the least important.
func (s State) FooterKeys(ascii bool, fits func([]key.Binding) bool) []key.Binding {
	var keys []key.Binding
	var prios []int
	for _, b := range bindings {
		b = b.on(s)
		if b.foot != "" && b.Enabled() && (b.footOn == 0 || b.footOn&(1<<s.Screen) != 0) {
			word := b.foot
			if s.Screen != MainScreen {
				word = cmp.Or(b.footOff, word)
			}
			keys, prios = append(keys, b.says(word, ascii)), append(prios, b.prio)
		}
	}
	for !fits(keys) && len(keys) > 0 && slices.Max(prios) > 0 {
		i := slices.Index(prios, slices.Max(prios))
		keys, prios = slices.Delete(keys, i, i+1), slices.Delete(prios, i, i+1)
	}
	return keys
}

// HelpKeys are the keys of all screens for the help page; a star marks those that are not there with --view.
func (s State) HelpKeys(ascii bool) []key.Binding {
	var out []key.Binding
	for _, b := range bindings {
		words := b.Help().Desc
		if words == "" || !b.allowed(s) {
			continue
		}
		if b.writes {
			words += " *"
		}
		out = append(out, b.says(words, ascii))
	}
	return out
}

// Keys describes every key for a manual page: label, then what it does.
func Keys() [][2]string {
	var out [][2]string
	for _, b := range bindings {
		if h := b.Help(); h.Desc != "" {
			out = append(out, [2]string{h.Key, h.Desc})
		}
	}
	return out
}

// only makes an action of a change that asks for nothing.
func only(change func(State) State) func(State) (State, Intent) {
	return func(s State) (State, Intent) { return change(s), Intent{} }
}

// keys makes the first part of a binding: a label, what it does, the keys that do it.
func keys(label, does string, names ...string) key.Binding {
	return key.NewBinding(key.WithKeys(names...), key.WithHelp(label, does))
}

// bindings in the order of footer and help.
var bindings = []binding{
	{Binding: keys("↑↓", "select a row, or scroll; also j and k", "up", "k"), ascii: "j/k", foot: "select", footOff: "scroll", prio: 1, where: everywhere,
		act: only(func(s State) State { return s.move(-1) })},
	{Binding: keys("↓", "", "down", "j"), where: everywhere,
		act: only(func(s State) State { return s.move(1) })},
	{Binding: keys("PgUp PgDn", "scroll the panel or screen by a page; also b and ctrl+f", "pgup", "b"), where: everywhere,
		act: only(func(s State) State { return s.page(-1) })},
	{Binding: keys("PgDn", "", "pgdown", "ctrl+f"), where: everywhere,
		act: only(func(s State) State { return s.page(1) })},
	{Binding: keys("Home End", "the first or last row or line; also g and G", "home", "g"), where: everywhere,
		act: only(State.first)},
	{Binding: keys("End", "", "end", "G"), where: everywhere,
		act: only(State.last)},
	{Binding: keys("enter", "everything about the selected replica", "enter"), foot: "detail", prio: 2, where: onMain,
		act: only(func(s State) State { return s.open(DetailScreen) })},
	{Binding: keys("esc", "back: closes a screen, a search, the explanation, the filter", "esc"), foot: "back", prio: 1, where: everywhere,
		footOn: onDetail | onLog | onHelp, act: only(State.escape)},
	{Binding: keys("tab", "next panel: overview, prompt tokens, sessions, last 60 s, events", "tab"), foot: "panel", prio: 4, where: onMain,
		act: only(func(s State) State { return s.turn(1) })},
	{Binding: keys("shift+tab", "previous panel", "shift+tab"), where: onMain,
		act: only(func(s State) State { return s.turn(-1) })},
	{Binding: keys("l", "the engine's log of the selected replica", "l"), foot: "logs", prio: 2, where: onMain | onDetail,
		act: only(func(s State) State { return s.open(LogScreen) })},
	{Binding: keys("f", "in the log: follow its end, or stop following", "f"), foot: "follow", prio: 2, where: onLog,
		act: only(State.toggleFollow)},
	{Binding: keys("w", "in the log: wrap long lines, or cut them", "w"), foot: "wrap", prio: 2, where: onLog,
		act: only(func(s State) State {
			return s.keepPlace(func(s State) State { s.Log.Wrap = !s.Log.Wrap; return s })
		})},
	{Binding: keys("a", "turn affinity of the selected replica's model on or off", "a"), foot: "affinity", prio: 2, where: onMain | onDetail, writes: true,
		act: State.toggleAffinity},
	{Binding: keys("R", "restart the selected replica (asks); try again where it gave up", "R"), foot: "restart", prio: 3, where: onMain | onDetail, writes: true,
		act: State.restart},
	{Binding: keys("D", "drain the selected replica (asks), or take the drain back", "D"), foot: "drain", prio: 3, where: onMain | onDetail, writes: true,
		act: State.drain},
	{Binding: keys("s", "sort rows by the next of ID, REQ, WAIT, KV, HIT, TTFT", "s"), foot: "sort", prio: 5, where: onMain,
		act: only(func(s State) State { s.Sort = (s.Sort + 1) % Orders; return s })},
	{Binding: keys("/", "show only rows, sessions and events with a text", "/"), foot: "filter", prio: 5, where: onMain,
		act: only(func(s State) State { s.Input = &Input{Line: newLine(s.Filter)}; return s })},
	{Binding: keys("/", "in the log: show only lines with a text", "/"), foot: "search", prio: 2, where: onLog,
		act: only(func(s State) State { s.Input = &Input{Logs: true, Line: newLine(s.Log.Search)}; return s })},
	{Binding: keys("space", "freeze the screen; the daemon goes on", " "), foot: "pause", prio: 5, where: everywhere, act: only(State.pause)},
	{Binding: keys("e", "what is wrong, how one can see it, what would help", "e"), foot: "explain", prio: 4, where: onMain,
		act: only(func(s State) State { s.Explain, s.Scroll = !s.Explain, 0; return s })},
	{Binding: keys("?", "keys and the meaning of the columns", "?"), foot: "help", prio: 1, where: everywhere &^ onHelp,
		act: only(func(s State) State { return s.open(HelpScreen) })},
	{Binding: keys("q", "leave; in `warden up` it asks whether to stop the replicas", "q"), foot: "quit", prio: 0, where: everywhere, act: State.quit},
}
