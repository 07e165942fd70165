package proxies

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lm-warden/warden/cmd/internal/process"
)

// Peer is another router.
type Peer struct {
	Program string // looked for in Home.Peers/*/bin, then in PATH
	Argv    func(h Home, program, host, port string) ([]string, error)
}

// Engines' addresses are "unix:/path" or "http://host:port".

// haproxyConfig is what HAProxy needs to keep conversations: http-no-delay,
// without which every answer waits about 0.15 s; timeouts beyond any queue.
const haproxyConfig = `defaults
  mode http
  option http-no-delay
  timeout connect 5s
  timeout client 10m
  timeout server 10m
  timeout queue 10m
frontend front
  bind %s:%s
  default_backend engines
backend engines
  balance leastconn
  stick-table type string len 128 size 10k expire 30m
  stick on req.hdr(X-Session-ID)
`

// HAProxy places new sessions by its count of connections and keeps the rest in
// a table.
func HAProxy(engines []string) Peer {
	return Peer{Program: "haproxy", Argv: func(h Home, program, host, port string) ([]string, error) {
		text := fmt.Sprintf(haproxyConfig, host, port)
		for i, e := range engines {
			if path, ok := strings.CutPrefix(e, "unix:"); ok {
				e = "unix@" + path
			}
			text += fmt.Sprintf("  server r%d %s\n", i, strings.TrimPrefix(e, "http://"))
		}
		file := filepath.Join(h.Dir, "haproxy.cfg")
		return []string{program, "-db", "-f", file}, os.WriteFile(file, []byte(text), 0o600)
	}}
}

// nginxConfig streams both ways: by default nginx collects bodies and answers.
// Connections to engines are kept, and given up before vLLM does (after 5 s).
const nginxConfig = `daemon off;
pid %[1]s/nginx.pid;
worker_processes auto;
%[2]sevents { worker_connections 16384; }
http {
  access_log off;
  client_body_temp_path %[1]s/nginx-body;
  proxy_temp_path %[1]s/nginx-proxy;
  fastcgi_temp_path %[1]s/nginx-fastcgi;
  uwsgi_temp_path %[1]s/nginx-uwsgi;
  scgi_temp_path %[1]s/nginx-scgi;
  client_max_body_size 64m;
  keepalive_requests 1000000;
  upstream engines {
    hash $http_x_session_id consistent;
%[3]s    keepalive 1024;
    keepalive_timeout 4s;
    keepalive_requests 1000000;
  }
  server {
    listen %[4]s:%[5]s backlog=4096;
    location / {
      proxy_pass http://engines;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_read_timeout 10m;
    }
  }
}
`

// Nginx hashes the session header over the engines, consistently.
func Nginx(engines []string) Peer {
	return Peer{Program: "nginx", Argv: func(h Home, program, host, port string) ([]string, error) {
		var servers, user strings.Builder
		for _, e := range engines {
			fmt.Fprintf(&servers, "    server %s;\n", strings.TrimPrefix(e, "http://"))
		}
		if os.Getuid() == 0 { // else its workers become nobody, who may not reach the sockets
			user.WriteString("user root;\n")
		}
		file := filepath.Join(h.Dir, "nginx.conf")
		text := fmt.Sprintf(nginxConfig, h.Dir, user.String(), servers.String(), host, port)
		argv := []string{program, "-p", h.Dir, "-e", filepath.Join(h.Dir, "nginx-error.log"), "-c", file}
		return argv, os.WriteFile(file, []byte(text), 0o600)
	}}
}

// VLLMRouter is vllm-project/router; more are further arguments.
func VLLMRouter(engines []string, more ...string) Peer {
	return Peer{Program: "vllm-router", Argv: func(_ Home, program, host, port string) ([]string, error) {
		metrics, err := process.FreeAddress()
		if err != nil {
			return nil, err
		}
		argv := append([]string{program, "--worker-urls"}, engines...)
		argv = append(argv, "--host", host, "--port", port, "--prometheus-port", metrics[strings.LastIndex(metrics, ":")+1:], "--disable-retries")
		return append(argv, more...), nil
	}}
}

// SMG is lightseekorg/smg; more are further arguments.
func SMG(engines []string, more ...string) Peer {
	return Peer{Program: "smg", Argv: func(_ Home, program, host, port string) ([]string, error) {
		argv := append([]string{program, "launch", "--worker-urls"}, engines...)
		return append(append(argv, "--host", host, "--port", port), more...), nil
	}}
}
