package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
	"github.com/lm-warden/warden/tui/quiet"
	"github.com/lm-warden/warden/tui/screen"
	"github.com/lm-warden/warden/tui/state"
)

func init() { quiet.Restore() } // bubbletea is initialised: see package quiet

// frameTime is the shortest time between two pictures.
const frameTime = 100 * time.Millisecond

// ErrLost is returned by Run when the daemon did not come back within a minute.
var ErrLost = errors.New("the daemon does not answer")

// Theme decides alphabet and colours; see NamedTheme.
type Theme = cell.Theme

// NamedTheme returns "auto", "dark", "light" or "none".
func NamedTheme(name string, ascii bool) (Theme, error) { return cell.NamedTheme(name, ascii) }

// Mode is who opens the dashboard.
type Mode = state.Mode

const (
	Top = state.Top // `warden top`: q and Ctrl-C just leave
	Up  = state.Up  // `warden up` in front: q asks, Ctrl-C stops the replicas
)

// Once draws one status without a program around it; height 0 = as high as what it shows.
func Once(status control.Status, width, height int, t Theme) string {
	return screen.Once(status, width, height, t)
}

// Keys describes every key of the dashboard for a manual page: its name, what it does.
func Keys() [][2]string { return state.Keys() }

// Action is why Run returned.
type Action int

const (
	Quit     Action = iota // the user left, or ctx ended
	Stopped                // Up only: the user wants the replicas stopped
	Detached               // Up only: the user leaves, the replicas go on
)

// Result of Run.
type Result struct{ Action Action }

// Options of Run. The zero value is `warden top` on the process's own terminal in local time, without colours.
type Options struct {
	Mode  Mode
	View  bool // no key changes anything in the daemon
	Theme Theme
	In    io.Reader      // nil = stdin
	Out   io.Writer      // nil = stdout
	Zone  *time.Location // nil = local
}

// Run shows the dashboard until the user leaves it or ctx ends. It restores the terminal and waits for all it started.
func Run(ctx context.Context, src Source, opts Options) (Result, error) {
	if opts.In == nil {
		opts.In = os.Stdin
	}
	if opts.Out == nil {
		opts.Out = os.Stdout
	}
	if opts.Zone == nil {
		opts.Zone = time.Local
	}
	a := &app{theme: opts.Theme, state: state.New(opts.Mode, opts.View, opts.Zone, time.Now())}
	a.state.Size = state.Size{W: 80, H: 24} // until the terminal says its own
	program := tea.NewProgram(a, tea.WithInput(opts.In), tea.WithOutput(opts.Out), tea.WithAltScreen(),
		tea.WithoutSignalHandler(), tea.WithFPS(int(time.Second/frameTime)))
	a.feed = newFeed(ctx, src, func(m any) { program.Send(m) })
	defer a.feed.stop()
	stop := context.AfterFunc(ctx, program.Quit)
	defer stop()
	a.feed.start()
	_, err := program.Run()
	if a.redraw != nil {
		a.redraw.Stop()
	}
	if err != nil {
		return a.result, fmt.Errorf("the dashboard ended: %w", err)
	}
	return a.result, a.err
}

// app is the bubbletea model: it passes messages to Reduce, and draws at most ten times a second.
type app struct {
	state  state.State
	theme  Theme
	feed   *feed
	result Result
	err    error

	picture string
	drawn   time.Time
	dirty   bool
	redraw  *time.Timer // set while a picture is owed
}

// frame asks for the picture that was owed.
type frame struct{}

func (a *app) Init() tea.Cmd { return nil }

// Update does no screen work: it only marks the picture as old.
func (a *app) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	switch m := m.(type) {
	case frame:
		a.redraw = nil
		return a, nil
	case tea.WindowSizeMsg:
		a.drawn = time.Time{} // at once: the terminal has torn the old picture
		return a, a.reduce(state.Resized{Size: state.Size{W: m.Width, H: m.Height}})
	case tea.KeyMsg:
		return a, a.press(m)
	case state.Msg:
		return a, a.reduce(m)
	}
	return a, nil
}

// press takes keys one by one: what was typed fast, or came over a slow line, arrives as one message.
func (a *app) press(m tea.KeyMsg) tea.Cmd {
	if m.Paste || len(m.Runes) < 2 {
		return a.reduce(state.Pressed{KeyMsg: m})
	}
	cmds := make([]tea.Cmd, len(m.Runes))
	for i, r := range m.Runes {
		one := m
		one.Runes = []rune{r}
		cmds[i] = a.reduce(state.Pressed{KeyMsg: one})
	}
	return tea.Batch(cmds...)
}

func (a *app) reduce(m state.Msg) tea.Cmd {
	next, intent := state.Reduce(a.state, m)
	a.state, a.dirty = next, true
	a.feed.follow(next.WantsLog())
	switch intent.Do {
	case state.Nothing:
		return nil
	case state.Leave:
		return tea.Quit
	case state.StopAll:
		a.result.Action = Stopped
		return tea.Quit
	case state.Detach:
		a.result.Action = Detached
		return tea.Quit
	case state.GiveUp:
		a.err = lostError(a.state)
		return tea.Quit
	default:
		a.feed.carryOut(intent)
		return nil
	}
}

func lostError(s state.State) error {
	if why := s.Trouble(); why != "" {
		return fmt.Errorf("%w: %s", ErrLost, why)
	}
	return ErrLost
}

// View draws when something changed and the last picture is old enough; otherwise it owes one.
func (a *app) View() string {
	if !a.dirty {
		return a.picture
	}
	if wait := frameTime - time.Since(a.drawn); wait > 0 {
		if a.redraw == nil {
			a.redraw = time.AfterFunc(wait, func() { a.feed.send(frame{}) })
		}
		return a.picture
	}
	picture, reach := screen.Draw(a.state, a.state.Size, a.theme)
	a.state, _ = state.Reduce(a.state, state.Drawn{Reach: reach})
	a.picture, a.drawn, a.dirty = picture, time.Now(), false
	return a.picture
}

// affinityText tells what a change of policy did.
func affinityText(c control.AffinityChange) string {
	word := func(policy string) string {
		if policy == control.PolicyBalance {
			return "off"
		}
		return "on"
	}
	return fmt.Sprintf("affinity %s: %s -> %s (%d sessions stay known)", c.Model, word(c.Old), word(c.New), c.SessionsLive)
}
