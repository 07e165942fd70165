package front

import (
	"context"
	"fmt"
	"sync"

	"github.com/lm-warden/warden/router/keys"
)

// ownName is the key of this process's own in logs.
const ownName = "warden"

// readKeys makes the keys of the file those that count.
func (f *Front) readKeys() error {
	all, err := ReadKeys(f.opts.KeysFile)
	if err != nil {
		return err
	}
	for _, k := range all {
		if k.Plain {
			f.opts.Log.Warn("the key file holds keys in plain text; `warden keys hash` keeps only their hashes", "file", f.opts.KeysFile)
			break
		}
	}
	f.guard.Replace(append(all, keys.Key{Hash: keys.HashOf(f.own), Name: ownName, Scope: keys.Infer}))
	return nil
}

// Watch reads files again that change, until ctx ends.
func (f *Front) Watch(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	if f.keysSeen != nil {
		all.Go(func() {
			f.keysSeen.Watch(ctx, func() { f.renewed(f.opts.KeysFile, "API keys", f.readKeys()) })
		})
	}
	if f.certSeen != nil {
		all.Go(func() { f.remind(ctx) })
		all.Go(func() {
			f.certSeen.Watch(ctx, func() {
				f.renewed(f.opts.CertFile, "certificate", f.certificate.Reload(f.opts.CertFile, f.opts.KeyFile))
				f.warnOfExpiry()
			})
		})
	}
}

// renewed tells how reading a changed file went.
func (f *Front) renewed(file, what string, err error) {
	text := ""
	if err != nil {
		text = fmt.Sprintf("%s: the %s as changed cannot be used, those from before count: %v", file, what, err)
	}
	f.mu.Lock()
	f.problems[file] = text
	f.mu.Unlock()
	if err != nil {
		f.opts.Log.Error("a changed file cannot be used: what was read before counts", "file", file, "err", err)
		f.opts.Tell(text)
		return
	}
	f.opts.Log.Info("a changed file counts from now on", "file", file)
	f.opts.Tell(fmt.Sprintf("%s: the %s as changed count from now on", file, what))
}
