package exit

import "errors"

// Report is what a warden that was started by another process says about its
// start: one JSON line.
type Report struct {
	OK    bool   `json:"ok"`
	Code  int    `json:"code,omitempty"`
	Error string `json:"error,omitempty"`
	Fix   string `json:"fix,omitempty"`
}

// ReportOf is the report of a start that ended with err.
func ReportOf(err error) Report {
	if err == nil {
		return Report{OK: true}
	}
	return Report{Code: CodeOf(err), Error: err.Error(), Fix: HintOf(err)}
}

// Err is the error that was reported, nil after a good start.
func (r Report) Err() error {
	if r.OK {
		return nil
	}
	return Fail(r.Code, errors.New(r.Error), r.Fix)
}
