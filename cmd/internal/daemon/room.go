package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// startRoom is what a start needs in the runtime directory at most, in bytes: the
// engine's command with its environment (the kernel takes no single string above
// 128 KiB), the shim's state and its log.
const startRoom = 256 << 10

// mayStart answers keep.Options.Hold: a full disk, or a program that is being replaced,
// passes as a refusing driver does, so a start waits for its end instead of failing
// until the replica is parked.
func (d *Daemon) mayStart(runtime string) func(context.Context, []string) string {
	var engines program
	if len(d.models) > 0 {
		engines.path = d.models[0].Install.Argv[0] // one vLLM serves all models
	}
	return func(ctx context.Context, uuids []string) string {
		if why := cmp.Or(noRoomIn(runtime), engines.absence(time.Now())); why != "" || len(uuids) == 0 {
			return why
		}
		return d.gpus.MayStart(ctx, uuids)
	}
}

// noRoomIn says that a start would fail because the directory's disk, or the user's
// share of it, is full. It writes, because the free space that is counted is not what
// this user may have; any other error is for the start to tell.
func noRoomIn(dir string) (why string) {
	file, err := os.CreateTemp(dir, ".room-*")
	if err == nil {
		_, err = file.Write(make([]byte, startRoom))
		err = errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Sprintf("no engine can start: the runtime directory %s is full; remove files from its disk (`df %s` names it)", dir, dir)
	}
	return ""
}
