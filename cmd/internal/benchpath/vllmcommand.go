package benchpath

import (
	"errors"
	"net"
	"strings"
	"time"
)

// Engine is the engine's command line: that of `vllm serve`, of which it knows
// what is needed to be found and takes the rest without a look.
type Engine struct {
	Model     string
	Listeners []string // "unix:/path", "tcp:host:port"
}

// keepAlive is what warden sets for its engines. vLLM's own default, 5 s, would
// close a proxy's connections while others are measured.
const keepAlive = 120 * time.Second

// ParseEngine reads what follows "serve". Besides --host with --port, --uds may
// be given, and both: the measurement lets peers in that know no sockets.
func ParseEngine(args []string) (Engine, error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return Engine{}, errors.New("serve needs a model")
	}
	e := Engine{Model: args[0]}
	host, port := "127.0.0.1", ""
	for i := 1; i+1 < len(args); i++ {
		switch value := args[i+1]; args[i] {
		case "--served-model-name":
			e.Model = value
		case "--uds":
			e.Listeners = append(e.Listeners, "unix:"+value)
		case "--host":
			host = value
		case "--port":
			port = value
		}
	}
	if port != "" {
		e.Listeners = append(e.Listeners, "tcp:"+net.JoinHostPort(host, port))
	}
	if len(e.Listeners) == 0 {
		return Engine{}, errors.New("serve needs --uds or --port")
	}
	return e, nil
}

// Serve listens and answers for as long as the process lives.
func (o Engine) Serve() error {
	e, err := newEngine(o.Model)
	if err != nil {
		return err
	}
	var listeners []net.Listener
	for _, address := range o.Listeners {
		network, at, _ := strings.Cut(address, ":")
		l, err := net.Listen(network, at)
		if err != nil {
			return err
		}
		defer l.Close()
		listeners = append(listeners, l)
	}
	return e.serve(keepAlive, listeners...)
}
