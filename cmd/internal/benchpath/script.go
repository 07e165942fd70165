package benchpath

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// script is what an engine is asked to answer: a request carries it as words in
// its last message, which pass through any proxy.
type script struct {
	Events   int           // pieces of text
	Interval time.Duration // between them; 0 = as fast as they go
}

// scriptMark begins the words of a script in a body. It needs no escapes.
const scriptMark = "bench-script "

// words are what a message holds: "bench-script 200 20000 end", the interval in
// microseconds.
func (s script) words() string {
	return fmt.Sprintf("%s%d %d end", scriptMark, s.Events, s.Interval.Microseconds())
}

// findScript reads the last script of a body; without one the answer is one
// piece, as a supervisor's test question wants.
func findScript(body []byte) script {
	once := script{Events: 1}
	at := bytes.LastIndex(body, []byte(scriptMark))
	if at < 0 {
		return once
	}
	const longest = 64 // of two numbers and "end"
	rest := body[at+len(scriptMark):]
	fields := bytes.SplitN(rest[:min(len(rest), longest)], []byte(" "), 3)
	if len(fields) < 3 || !bytes.HasPrefix(fields[2], []byte("end")) {
		return once
	}
	events, err := strconv.Atoi(string(fields[0]))
	micros, err2 := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil || err2 != nil || events < 1 || micros < 0 {
		return once
	}
	return script{Events: events, Interval: time.Duration(micros) * time.Microsecond}
}

// says reports whether a body holds the field with the value true, in either
// way of spacing.
func says(body []byte, field string) bool {
	return bytes.Contains(body, []byte(`"`+field+`":true`)) || bytes.Contains(body, []byte(`"`+field+`": true`))
}
