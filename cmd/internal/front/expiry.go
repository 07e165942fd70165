package front

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

const (
	// ExpirySoon is when an expiry is worth a warning: renewals are due well
	// before (Let's Encrypt's clients renew 30 days before the end).
	ExpirySoon = 14 * 24 * time.Hour
	// remindEvery is how often it is said again: a warden runs for months, and
	// logs are read from their end.
	remindEvery = 24 * time.Hour
)

// expiryOf says what to tell of a certificate that has so much time left; ""
// when there is nothing to tell.
func expiryOf(left time.Duration) (text string, level slog.Level) {
	switch {
	case left <= 0:
		return "the API's certificate has expired, clients refuse it; a renewed file is read by itself", slog.LevelError
	case left < ExpirySoon:
		return "the API's certificate expires soon; a renewed file is read by itself", slog.LevelWarn
	}
	return "", 0
}

// warnOfExpiry tells of a certificate that ends.
func (f *Front) warnOfExpiry() {
	if f.certificate == nil {
		return
	}
	expires := f.certificate.Expires()
	text, level := expiryOf(time.Until(expires))
	if text == "" {
		return
	}
	f.opts.Log.Log(context.Background(), level, text, "file", f.opts.CertFile, "expires", expires)
	f.opts.Tell(fmt.Sprintf("%s, until %s: %s", f.opts.CertFile, expires.UTC().Format(time.DateOnly), text))
}

// remind says it again every day until ctx ends.
func (f *Front) remind(ctx context.Context) {
	day := time.NewTicker(remindEvery)
	defer day.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-day.C:
			f.warnOfExpiry()
		}
	}
}
