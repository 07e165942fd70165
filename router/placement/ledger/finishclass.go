package ledger

// FinishClass groups turns by how soon their conversation comes back: after
// tool calls at the pace of tools, after a stop at the pace of people.
type FinishClass uint8

// The classes, and how many there are.
const (
	finishOther FinishClass = iota
	finishTools
	finishStop
	FinishClasses
)

// ClassOf is the class of an API's finish reason.
func ClassOf(finish string) FinishClass {
	switch finish {
	case "tool_calls", "tool_use":
		return finishTools
	case "stop", "end_turn":
		return finishStop
	default:
		return finishOther
	}
}
