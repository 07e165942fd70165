package keys

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// hashed begins the line of a key of which only the hash is written.
const hashed = "sha256:"

// byteOrderMark begins what some editors save; it is no part of the first key.
const byteOrderMark = "\ufeff"

// MaxFile bounds a key file, in bytes: room for some ten thousand keys.
const MaxFile = 1 << 20

// ErrNone is what Parse says of a file without keys.
var ErrNone = errors.New("holds no key, so nobody could use the API")

// Parse reads a key file: a line is a key or sha256:HEX, then any of name=NAME,
// scope=infer,read,admin and max_in_flight=N. A key without a scope may infer
// and read. Empty lines and those that begin with # are skipped. Errors name
// the line and never its content, which may be a key.
func Parse(content []byte) ([]Key, error) {
	if len(content) > MaxFile {
		return nil, fmt.Errorf("larger than %d bytes", MaxFile)
	}
	var all []Key
	at := map[Hash]int{}
	names := map[string]int{}
	n := 0
	text := strings.TrimPrefix(string(content), byteOrderMark)
	for line := range strings.Lines(text) {
		n++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		k, err := parseLine(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if first := at[k.Hash]; first != 0 {
			return nil, fmt.Errorf("line %d: the key of line %d again", n, first)
		}
		if first := names[k.Name]; first != 0 && k.Name != "" {
			return nil, fmt.Errorf("line %d: the name of line %d again", n, first)
		}
		at[k.Hash], names[k.Name] = n, n
		all = append(all, k)
	}
	if len(all) == 0 {
		return nil, ErrNone
	}
	return all, nil
}

func parseLine(fields []string) (Key, error) {
	k := Key{Scope: Infer | Read, Hash: HashOf(fields[0]), Plain: true}
	if digest, ok := strings.CutPrefix(fields[0], hashed); ok {
		raw, err := hex.DecodeString(digest)
		if err != nil || len(raw) != len(k.Hash) {
			return Key{}, errors.New("behind sha256: are not 64 hexadecimal digits")
		}
		copy(k.Hash[:], raw)
		k.Plain = false
	}
	for _, field := range fields[1:] {
		name, value, _ := strings.Cut(field, "=")
		var err error
		switch name {
		case "name":
			k.Name, err = value, CheckName(value)
		case "scope":
			k.Scope, err = ParseScope(value)
		case "max_in_flight":
			k.MaxInFlight, err = strconv.Atoi(value)
			if err != nil || k.MaxInFlight < 1 {
				err = errors.New("max_in_flight is not a number of at least 1")
			}
		default:
			err = errors.New("behind a key only name=, scope= and max_in_flight= are known")
		}
		if err != nil {
			return Key{}, err
		}
	}
	return k, nil
}

// maxName bounds a name: it stands in log lines and metrics.
const maxName = 40

// CheckName says what is wrong with a key's name.
func CheckName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("a key's name has 1 to %d letters", maxName)
	}
	for _, c := range name {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.@", c)) {
			return errors.New("a key's name is made of letters, digits and -_.@ alone")
		}
	}
	return nil
}

// Line is k as a line of the file: its hash, never the key.
func (k Key) Line() string {
	line := hashed + hex.EncodeToString(k.Hash[:])
	if k.Name != "" {
		line += " name=" + k.Name
	}
	line += " scope=" + k.Scope.String()
	if k.MaxInFlight > 0 {
		line += " max_in_flight=" + strconv.Itoa(k.MaxInFlight)
	}
	return line + "\n"
}
