package handover

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/cmd/internal/exit"
)

func TestListenerIsPassedOn(t *testing.T) {
	ours, file, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := On(file)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := ours.SendListener(l); err != nil {
		t.Fatal(err)
	}
	passed, err := theirs.ReceiveListener()
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

	if err := ours.Say(Go); err != nil {
		t.Fatal(err)
	}
	if word := theirs.Hear(); word != Go {
		t.Errorf("heard %q", word)
	}
	if err := theirs.SendReport(exit.Report{Code: 4, Error: "bad", Fix: "better"}); err != nil {
		t.Fatal(err)
	}
	if r, err := ours.ReceiveReport(time.Minute); err != nil || r != (exit.Report{Code: 4, Error: "bad", Fix: "better"}) {
		t.Errorf("report %+v, %v", r, err)
	}
	theirs.Close()
	if word := ours.Hear(); word != "" {
		t.Errorf("heard %q from one that is gone", word)
	}
}

// A word where the socket should be is told as such.
func TestNoListenerCame(t *testing.T) {
	ours, file, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := On(file)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	if err := ours.Say(Go); err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.ReceiveListener(); err == nil || strings.Contains(err.Error(), "%!") || !strings.Contains(err.Error(), "socket was not passed on: 0 control messages: want one") {
		t.Errorf("%v", err)
	}
}
