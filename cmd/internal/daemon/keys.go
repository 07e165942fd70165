package daemon

import (
	"fmt"
	"io"
	"os"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/router/keys"
)

// keysFix is what to do about a key file that cannot be used.
const keysFix = "`warden keys add NAME` writes one; a line is a key or sha256:<hex>, then name=, scope=, max_in_flight=; mode 0600"

// loadKeys reads the accepted API keys. No file means no keys.
func loadKeys(file string) (*keys.Guard, error) {
	if file == "" {
		return nil, nil
	}
	all, err := readKeys(file)
	if err != nil {
		return nil, exit.Fail(exit.Config, fmt.Errorf("api_keys_file %s: %w", file, err), keysFix)
	}
	return keys.NewGuard(all...), nil
}

// readKeys reads a key file that nobody else can.
func readKeys(file string) ([]keys.Key, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("mode %04o lets others read it, `chmod 600 %s`", mode, file)
	}
	content, err := io.ReadAll(io.LimitReader(f, keys.MaxFile+1))
	if err != nil {
		return nil, err
	}
	return keys.Parse(content)
}
