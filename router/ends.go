package router

// ends are what must be done when an exchange is over: the defers of its
// functions, kept where another goroutine can do them. An exchange whose stream
// outlives its handler takes them along.
type ends struct {
	todo []func()
	away bool // the handler's functions return, but the exchange goes on
}

// later does f at the end of the function that has deferred undo.
func (e *ends) later(f func()) { e.todo = append(e.todo, f) }

// undo does what came later than at, in reverse, unless the exchange has gone
// away: a function calls it as `defer x.undo(x.depth())`.
func (e *ends) undo(at int) {
	if !e.away {
		e.undoAll(at)
	}
}

// undoAll goes on with the others when one panics, as defers do.
func (e *ends) undoAll(at int) {
	last := len(e.todo) - 1
	if last < at {
		return
	}
	f := e.todo[last]
	e.todo = e.todo[:last]
	defer e.undoAll(at)
	f()
}

func (e *ends) depth() int { return len(e.todo) }
