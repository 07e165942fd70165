package daemon

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/cmd/internal/exit"
)

func TestListenerIsPassedOn(t *testing.T) {
	ours, file, err := newHandover()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.close()
	theirs, err := handoverOn(file)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := ours.sendListener(l); err != nil {
		t.Fatal(err)
	}
	passed, err := theirs.receiveListener()
	if err != nil {
		t.Fatal(err)
	}
	defer passed.Close()
	if err := l.Close(); err != nil { // as the old warden does: the socket stays open
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", passed.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := passed.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()

	if err := ours.say(wordGo); err != nil {
		t.Fatal(err)
	}
	if word := theirs.hear(); word != wordGo {
		t.Errorf("heard %q", word)
	}
	if err := theirs.sendReport(exit.Report{Code: 4, Error: "bad", Fix: "better"}); err != nil {
		t.Fatal(err)
	}
	if r, err := ours.receiveReport(time.Minute); err != nil || r != (exit.Report{Code: 4, Error: "bad", Fix: "better"}) {
		t.Errorf("report %+v, %v", r, err)
	}
	theirs.close()
	if word := ours.hear(); word != "" {
		t.Errorf("heard %q from one that is gone", word)
	}
}

func TestSameAddress(t *testing.T) {
	tests := []struct {
		configured, bound string
		want              bool
	}{
		{"127.0.0.1:8000", "127.0.0.1:8000", true},
		{"127.0.0.1:0", "127.0.0.1:41234", true},
		{"localhost:8000", "127.0.0.1:8000", true},
		{"localhost:8000", "[::]:8000", false},
		{":8000", "[::]:8000", true},
		{"0.0.0.0:8000", "[::]:8000", true},
		{"127.0.0.1:8000", "[::]:8000", false},
		{"0.0.0.0:8000", "127.0.0.1:8000", false},
		{"127.0.0.1:8001", "127.0.0.1:8000", false},
		{"127.0.0.2:8000", "127.0.0.1:8000", false},
		{"nonsense", "127.0.0.1:8000", false},
	}
	for _, tt := range tests {
		if got := sameAddress(tt.configured, tt.bound); got != tt.want {
			t.Errorf("sameAddress(%s, %s) = %v", tt.configured, tt.bound, got)
		}
	}
}

func TestTakeoverCommandLine(t *testing.T) {
	tests := []struct{ args, want string }{
		{"up --demo -- --seed 1", "up --takeover --demo -- --seed 1"},
		{"--config c up --takeover --leash -d", "--config c up --takeover --leash -d"},
	}
	for _, tt := range tests {
		if got := strings.Join(takeoverArgs(strings.Fields(tt.args)), " "); got != tt.want {
			t.Errorf("%s -> %s, want %s", tt.args, got, tt.want)
		}
	}
	env := successorEnv([]string{"A=1", "WATCHDOG_PID=7", "WATCHDOG_USEC=5"})
	if !slices.Equal(env, []string{"A=1", "WATCHDOG_USEC=5"}) {
		t.Errorf("environment %v", env)
	}
}
