package placement

// finishClass groups turns by how soon their conversation comes back: after
// tool calls at the pace of tools, after a stop at the pace of people.
type finishClass uint8

const (
	finishOther finishClass = iota
	finishTools
	finishStop
	finishClasses
)

func classOf(finish string) finishClass {
	switch finish {
	case "tool_calls", "tool_use":
		return finishTools
	case "stop", "end_turn":
		return finishStop
	default:
		return finishOther
	}
}
