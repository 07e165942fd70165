package benchpath

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The floor must do what a proxy does: every byte, both ways, to all engines, and
// the end of one side is the end of the other.
func TestBareCopy(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "bench-path")
	if out, err := exec.Command("go", "build", "-o", bin, "../../bench-path").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var engines []string
	for _, name := range []string{"a", "b"} {
		path := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		engines = append(engines, "unix:"+path)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					line, _ := bufio.NewReader(c).ReadString('\n')
					_, _ = io.WriteString(c, name+line+strings.Repeat("x", 3<<20))
				}()
			}
		}()
	}
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := probe.Addr().String()
	probe.Close()
	floor := exec.Command(bin, append([]string{"copy", "--listen", address}, engines...)...)
	floor.Stderr = os.Stderr
	if err := floor.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = floor.Process.Kill(); _ = floor.Wait() }()
	for _, name := range []string{"a", "b", "a"} {
		c := dialled(t, address)
		_, _ = io.WriteString(c, "hello\n")
		got, err := io.ReadAll(c)
		if want := name + "hello\n"; err != nil || !bytes.HasPrefix(got, []byte(want)) || len(got) != len(want)+3<<20 {
			t.Errorf("%d bytes, %.20q, %v", len(got), got, err)
		}
		c.Close()
	}
}

// dialled connects once somebody listens.
func dialled(t *testing.T, address string) net.Conn {
	for {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return c
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}
