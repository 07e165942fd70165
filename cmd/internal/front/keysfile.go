package front

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/lm-warden/warden/router/keys"
)

// ReadKeys reads a key file, which nobody else may read.
func ReadKeys(file string) ([]keys.Key, error) {
	content, err := readPrivate(file)
	if err != nil {
		return nil, err
	}
	return keys.Parse(content)
}

// ListKeys is ReadKeys with errors that name the file.
func ListKeys(file string) ([]keys.Key, error) {
	all, err := ReadKeys(file)
	return all, named(file, err)
}

// named says which file err is about, once.
func named(file string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", file, err)
}

func readPrivate(file string) ([]byte, error) {
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
	if err == nil && len(content) > keys.MaxFile { // an edit would cut it off
		err = fmt.Errorf("larger than %d bytes", keys.MaxFile)
	}
	return content, err
}

// AddKey writes k behind the others; a file that is not there is made. What
// people wrote into it, comments too, stays.
func AddKey(file string, k keys.Key) error {
	return editKeys(file, true, func(content string, before []keys.Key) (string, error) {
		if k.Name != "" && slices.ContainsFunc(before, func(b keys.Key) bool { return b.Name == k.Name }) {
			return "", fmt.Errorf("there is a key %q already: choose another name, or `warden keys remove %s` first", k.Name, k.Name)
		}
		if content != "" && !strings.HasSuffix(content, "\n") {
			content += "\n"
		}
		content += k.Line()
		_, err := keys.Parse([]byte(content)) // a key again, or too many
		return content, err
	})
}

// RemoveKey takes out the key of a name or short hash. The last one stays:
// a running warden would not accept a file without keys.
func RemoveKey(file, which string) error {
	found := false
	return editKeys(file, false, func(content string, _ []keys.Key) (string, error) {
		var rest strings.Builder
		for line := range strings.Lines(content) {
			one, err := keys.Parse([]byte(line))
			if err == nil && (one[0].Name == which || one[0].Hash.ID() == which) {
				found = true
				continue
			}
			rest.WriteString(line)
		}
		if !found {
			return "", fmt.Errorf("no key %q", which)
		}
		if _, err := keys.Parse([]byte(rest.String())); err != nil {
			return "", fmt.Errorf("%q is the only key: add another one first", which)
		}
		return rest.String(), nil
	})
}

// HashKeys replaces keys written in plain text by their hashes.
func HashKeys(file string) (n int, err error) {
	err = editKeys(file, false, func(content string, _ []keys.Key) (string, error) {
		var out strings.Builder
		for line := range strings.Lines(content) {
			if one, err := keys.Parse([]byte(line)); err == nil && one[0].Plain {
				line = one[0].Line()
				n++
			}
			out.WriteString(line)
		}
		return out.String(), nil
	})
	return n, err
}

// editKeys changes a key file in one step, one editor after the other: a reader
// sees the old or the new one. One with a line that cannot be read stays as it is.
func editKeys(file string, create bool, change func(content string, all []keys.Key) (string, error)) error {
	_, err := os.Stat(file)
	absent := errors.Is(err, fs.ErrNotExist)
	locked, err := lockKeys(file, create)
	if err != nil {
		return named(file, err)
	}
	defer locked.Close()
	text, err := changed(file, change)
	if err == nil {
		err = replace(file, text)
	}
	if err != nil && absent {
		removeEmpty(file)
	}
	return named(file, err)
}

// changed is what a key file shall hold.
func changed(file string, change func(content string, all []keys.Key) (string, error)) (string, error) {
	content, err := readPrivate(file)
	if err != nil {
		return "", err
	}
	all, err := keys.Parse(content)
	if err != nil && !errors.Is(err, keys.ErrNone) {
		return "", err
	}
	return change(string(content), all)
}

// removeEmpty takes away the file that was made for an edit that then failed.
func removeEmpty(file string) {
	if info, err := os.Stat(file); err == nil && info.Size() == 0 {
		_ = os.Remove(file) // what stays is refused as a file without keys, and names itself
	}
}

// replace puts text in the place of a file.
func replace(file, text string) error {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target // a link stays one
	}
	temp, err := os.CreateTemp(filepath.Dir(file), ".keys-") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.WriteString(text)
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if info, err := os.Stat(file); err == nil {
		keepOwner(temp.Name(), info)
	}
	return os.Rename(temp.Name(), file)
}

// keepOwner gives a new file to the owner of the one it replaces: root edits
// the file of a service that runs as somebody else. Others cannot give files
// away, and need not.
func keepOwner(name string, old os.FileInfo) {
	if sys, ok := old.Sys().(*syscall.Stat_t); ok {
		_ = os.Chown(name, int(sys.Uid), int(sys.Gid))
	}
}
