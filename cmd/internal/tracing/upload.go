package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// upload posts batches to a collector, as the OTLP/HTTP specification has it
// (opentelemetry.io/docs/specs/otlp).
type upload struct {
	settings Settings
	client   *http.Client
}

func newUpload(s Settings) (*upload, error) {
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		pem, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, fmt.Errorf("cannot read the collector's certificate authority: %w", err)
		}
		tlsConfig.RootCAs = x509.NewCertPool()
		if !tlsConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", s.CA)
		}
	}
	if s.Cert != "" || s.Key != "" {
		pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
		if err != nil {
			return nil, fmt.Errorf("cannot read warden's own certificate for the collector: %w", err)
		}
		tlsConfig.Certificates = []tls.Certificate{pair}
	}
	return &upload{settings: s, client: &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: tlsConfig, MaxIdleConns: 1, IdleConnTimeout: time.Minute,
	}}}, nil
}

// Start is part of otlptrace.Client.
func (u *upload) Start(context.Context) error { return nil }

// Stop is part of otlptrace.Client.
func (u *upload) Stop(context.Context) error {
	u.client.CloseIdleConnections()
	return nil
}

// maxReply bounds what is read of a collector's answer.
const maxReply = 4 << 10

// UploadTraces sends one batch.
func (u *upload) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// TracesData has the same encoding as the ExportTraceServiceRequest that
	// is asked for (field 1 of both), whose package would bring gRPC with it.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	req, err := u.request(ctx, body)
	if err != nil {
		return err
	}
	resp, err := u.client.Do(req)
	if err != nil {
		return &retryable{err: err}
	}
	defer resp.Body.Close()
	reply, _ := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if resp.StatusCode < 300 {
		return nil
	}
	err = fmt.Errorf("collector %s: %s: %s", u.settings.Endpoint.Host, resp.Status, printable(reply))
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return &retryable{err: err, after: time.Duration(max(seconds, 0)) * time.Second}
	}
	return err
}

func (u *upload) request(ctx context.Context, body []byte) (*http.Request, error) {
	if u.settings.Gzip {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(body) // into memory
		_ = w.Close()
		body = packed.Bytes()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.settings.Endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range u.settings.Headers {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "warden")
	if u.settings.Gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	return req, nil
}

// printable is the beginning of an answer, which is a protobuf or text.
func printable(reply []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == '\ufffd' {
			return -1
		}
		return r
	}, string(reply[:min(len(reply), 200)]))
}

var _ otlptrace.Client = (*upload)(nil)
