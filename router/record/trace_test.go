package record

import "testing"

func TestTraceID(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	for name, c := range map[string]struct{ parent, want string }{
		"none":             {"", ""},
		"sampled":          {"00-" + id + "-b7ad6b7169203331-01", id},
		"not sampled":      {"00-" + id + "-b7ad6b7169203331-00", id},
		"a later version":  {"cc-" + id + "-b7ad6b7169203331-01-what-the-future-will-be", id},
		"later, no dash":   {"cc-" + id + "-b7ad6b7169203331-01.x", ""},
		"00 with more":     {"00-" + id + "-b7ad6b7169203331-01-x", ""},
		"version ff":       {"ff-" + id + "-b7ad6b7169203331-01", ""},
		"upper case":       {"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", ""},
		"zero trace":       {"00-00000000000000000000000000000000-b7ad6b7169203331-01", ""},
		"zero span":        {"00-" + id + "-0000000000000000-01", ""},
		"wrong separators": {"00_" + id + "_b7ad6b7169203331_01", ""},
		"short":            {"00-" + id + "-b7ad6b7169203331", ""},
		"flags not hex":    {"00-" + id + "-b7ad6b7169203331-zz", ""},
	} {
		if got := (TraceContext{Parent: c.parent}).TraceID(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestResults(t *testing.T) {
	for name, c := range map[string]struct {
		record Record
		want   Result
	}{
		"answered":               {Record{Status: 200}, Complete},
		"broke off":              {Record{Status: 200, Failed: true}, Cut},
		"left while answered":    {Record{Status: 200, Aborted: true}, Cancelled},
		"left before any answer": {Record{Aborted: true}, Cancelled},
		"no place":               {Record{Status: 429, Failed: true, Cause: "queue_full"}, Refused},
		"ended for a later copy": {Record{Status: 429, Aborted: true, Cause: "resent"}, Refused},
		"the engine said no":     {Record{Status: 400, Cause: CauseEngine}, Refused},
	} {
		if got := c.record.Result(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if got := CauseOf("", 413); got != "request_entity_too_large" {
		t.Errorf("a refusal without code has the cause %q", got)
	}
}
