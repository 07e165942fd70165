package daemon

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/router"
)

// loadKeys reads the accepted API keys: one key, or sha256:<hex> of one, a
// line; empty lines and # comments are skipped. No file means no keys.
func loadKeys(file string) (router.Authenticator, error) {
	if file == "" {
		return nil, nil
	}
	bad := func(format string, args ...any) error {
		return exit.Fail(exit.Config, fmt.Errorf("api_keys_file %s: "+format, append([]any{file}, args...)...), "one key or sha256:<hex of its SHA-256> a line, file mode 0600")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, exit.Fail(exit.Config, fmt.Errorf("cannot read api_keys_file: %w", err), "")
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, bad("%w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, bad("mode %04o lets others read it", mode)
	}
	var sums [][sha256.Size]byte
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		sum := router.HashKey(text)
		if digest, ok := strings.CutPrefix(text, "sha256:"); ok {
			raw, err := hex.DecodeString(digest)
			if err != nil || len(raw) != sha256.Size {
				return nil, bad("line %d: not 64 hexadecimal digits behind sha256:", n)
			}
			copy(sum[:], raw)
		}
		sums = append(sums, sum)
	}
	if err := lines.Err(); err != nil {
		return nil, bad("%w", err)
	}
	if len(sums) == 0 {
		return nil, bad("holds no key, so nobody could use the API")
	}
	return router.NewKeys(sums...), nil
}
