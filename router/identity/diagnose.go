package identity

import (
	"fmt"
	"slices"

	"github.com/lm-warden/warden/router/identity/scan"
)

// Change compares a request with the latest one of its conversation, for the
// moment when the engine reports fewer cached tokens than the history allows.
type Change struct {
	// Known: there was a request to compare with.
	Known bool
	// Shared leading turns, of Turns in the earlier request; Shared < Turns
	// means that history was edited, or replaced by a summary.
	Shared, Turns int
	// System says what changed in the leading system text.
	System SystemChange
	// SystemAt is about where it changed, SystemSize how long it is now, both in
	// bytes. They count only when System is not SystemSame.
	SystemAt, SystemSize int
	// Tools given now that were not before, no longer given, and given with
	// another definition; ToolsMoved: the same ones in another order.
	ToolsAdded, ToolsRemoved, ToolsChanged int
	ToolsMoved                             bool
	// SystemTurns that were added after the first turn.
	SystemTurns int
	// Billing: Claude Code's billing line is another one. Engines that drop the
	// line are not affected.
	Billing bool
	// Reasoning parts that the client resent with the history.
	Reasoning int
	// Rest: the root changed in a way that none of the above tells.
	Rest bool
	// Compacted: the client says so.
	Compacted bool
}

// SystemChange says what changed in the leading system text.
type SystemChange string

const (
	SystemSame    SystemChange = ""
	SystemNumbers SystemChange = "numbers" // only numbers, dates or times
	SystemPaths   SystemChange = "paths"   // only absolute paths
	SystemBoth    SystemChange = "numbers and paths"
	SystemText    SystemChange = "text"
)

// compare is the Change from c's latest request to id, which have the first
// shared turns in common.
func (x *Index) compare(c *conversation, id *Identity, shared int) Change {
	ch := Change{
		Known: true, Shared: shared, Turns: c.turns(),
		SystemTurns: max(0, id.outline.systemTurns-c.systemTurns),
		Billing:     id.outline.billing != c.billing,
		Reasoning:   id.outline.reasoning,
		Compacted:   id.compacted || id.window != c.window,
	}
	root := id.scoped(id.Root)
	if c.root == root {
		return ch
	}
	now := id.outline.shape
	if ref := x.roots[root]; ref != nil {
		now = ref.shape
	}
	if now == nil || now.unknown || c.shape.unknown {
		ch.Rest = true
		return ch
	}
	ch.compareSystem(c.shape, now)
	ch.compareTools(c.shape.tools, now.tools)
	ch.Rest = ch.System == SystemSame && ch.ToolsAdded+ch.ToolsRemoved+ch.ToolsChanged == 0 && !ch.ToolsMoved
	return ch
}

func (ch *Change) compareSystem(old, now *shape) {
	at := 0
	for at < len(old.blocks) && at < len(now.blocks) && old.blocks[at] == now.blocks[at] {
		at++
	}
	if at == len(old.blocks) && at == len(now.blocks) && old.systemBytes == now.systemBytes &&
		old.noNumbers == now.noNumbers && old.noPaths == now.noPaths {
		return
	}
	ch.SystemAt, ch.SystemSize = min(at*systemBlock, now.systemBytes), now.systemBytes
	switch {
	case old.noPaths == now.noPaths:
		ch.System = SystemPaths
	case old.noNumbers == now.noNumbers:
		ch.System = SystemNumbers
	case old.bare == now.bare:
		ch.System = SystemBoth
	default:
		ch.System = SystemText
	}
}

func (ch *Change) compareTools(old, now []scan.Tool) {
	before := map[uint32]uint32{}
	for _, t := range old {
		before[t.Name] = t.Definition
	}
	for _, t := range now {
		definition, known := before[t.Name]
		switch {
		case !known:
			ch.ToolsAdded++
		case definition != t.Definition:
			ch.ToolsChanged++
		}
		delete(before, t.Name)
	}
	ch.ToolsRemoved = len(before)
	if ch.ToolsAdded+ch.ToolsRemoved+ch.ToolsChanged == 0 {
		ch.ToolsMoved = !slices.Equal(old, now)
	}
}

// Cause names the likely reason why a prefix stopped matching. The values are
// stable: they label metrics and control answers.
type Cause string

const (
	CauseSystemNumbers Cause = "system_date"
	CauseSystemPaths   Cause = "system_path"
	CauseSystemText    Cause = "system_text"
	CauseTools         Cause = "tools"
	CauseCompaction    Cause = "compaction"
	CauseHistory       Cause = "history_edited"
	CauseSystemTurns   Cause = "system_turns"
	CauseBilling       Cause = "billing_line"
	CauseReasoning     Cause = "reasoning"
	CauseEngine        Cause = "engine"
)

// Break explains a prefix that stopped matching.
type Break struct {
	Cause Cause
	Text  string // what happened, for people
	Fix   string // what mends it
}

// Explain names the likely cause of a prefix that the engine did not find in
// its cache, given that the replica stayed the same. What comes first in the
// prompt explains most, so it is named first.
func (ch Change) Explain(client string) Break {
	switch {
	case ch.System != SystemSame:
		return ch.explainSystem(client)
	case ch.ToolsAdded+ch.ToolsRemoved+ch.ToolsChanged > 0 || ch.ToolsMoved:
		return ch.explainTools(client)
	case ch.Rest:
		return Break{CauseSystemText, "what the prompt begins with changed",
			"keep system text, tools and cache_salt the same for the whole conversation"}
	case ch.Known && ch.Shared < ch.Turns && (ch.Compacted || ch.Shared == 0):
		return Break{CauseCompaction, "the client replaced its history by a summary",
			"nothing to mend: the next turns are warm again"}
	case ch.Known && ch.Shared < ch.Turns:
		return Break{CauseHistory,
			fmt.Sprintf("the client changed turn %d of %d of the history", ch.Shared+1, ch.Turns),
			"let the client append to its history only; pruning of old tool results is a usual reason"}
	case ch.SystemTurns > 0:
		return Break{CauseSystemTurns,
			fmt.Sprintf("%s inside the conversation; the engine moves such text to the beginning of the prompt",
				count(ch.SystemTurns, "new system message")),
			systemTurnsFix(client)}
	case ch.Billing:
		return Break{CauseBilling, "the billing line before the system text changed and the engine does not drop it",
			"set CLAUDE_CODE_ATTRIBUTION_HEADER=0"}
	case ch.Reasoning > 0:
		return Break{CauseReasoning, "the chat template leaves out the reasoning of earlier turns, so that the latest answer is read again",
			"a template that keeps reasoning (--chat-template), or a model that does not reason"}
	}
	return Break{CauseEngine, "the prompt only grew; the engine has lost it or renders old turns in another way",
		"see the replica's KV cache use and restarts; check the chat template for dates and for what it does with old turns"}
}

func (ch Change) explainSystem(client string) Break {
	where := fmt.Sprintf("after character %d of %d", ch.SystemAt, ch.SystemSize)
	switch ch.System {
	case SystemNumbers:
		fix := "move dates, times and counters from the system prompt to the newest user message"
		switch client {
		case clientOpencode, clientKilo, "cline", "continue", "qwen-code":
			fix = "this client puts the date into its system prompt: it happens once a day, at midnight"
		}
		return Break{CauseSystemNumbers, "a date, time or number in the system prompt changed, " + where, fix}
	case SystemPaths, SystemBoth:
		fix := "keep directory names out of the system prompt, or start a new conversation per directory"
		if client == ClaudeCode {
			fix = "set CLAUDE_CODE_DISABLE_AUTO_MEMORY=1: it takes the memory path out of the system prompt"
		}
		return Break{CauseSystemPaths, "a path in the system prompt changed, " + where, fix}
	}
	return Break{CauseSystemText, "the system prompt changed, " + where,
		"keep the system prompt the same for the whole conversation and put what changes into the newest user message"}
}

func (ch Change) explainTools(client string) Break {
	text := fmt.Sprintf("the tool list changed: %d added, %d removed, %d redefined", ch.ToolsAdded, ch.ToolsRemoved, ch.ToolsChanged)
	if ch.ToolsMoved {
		text = "the tools came in another order"
	}
	fix := "send the same tools in the same order for the whole conversation"
	if client == ClaudeCode {
		fix = "set ENABLE_TOOL_SEARCH=false, so that no tools are added later"
	}
	return Break{CauseTools, text, fix}
}

func systemTurnsFix(client string) string {
	if client == ClaudeCode {
		return "let warden rewrite them (system_turns: fold), or set CLAUDE_CODE_TOTAL_TOKENS_REMINDER=off"
	}
	return "let warden rewrite them (system_turns: fold), or send such text as user messages"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
