package tracing

import (
	"maps"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

func read(endpoint string, env map[string]string) (Settings, bool, error) {
	return Read(endpoint, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
}

func TestWhereSpansGo(t *testing.T) {
	type env map[string]string
	for name, c := range map[string]struct {
		config string
		env    env
		want   string // "" = off
	}{
		"nothing said":       {"", nil, ""},
		"configured":         {"http://c:4318", nil, "http://c:4318/v1/traces"},
		"with a slash":       {"http://c:4318/", nil, "http://c:4318/v1/traces"},
		"with a path":        {"https://c/insert/opentelemetry/v1/traces", nil, "https://c/insert/opentelemetry/v1/traces"},
		"for all signals":    {"", env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/otlp/"}, "http://c:4318/otlp/v1/traces"},
		"for traces":         {"", env{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:1/x", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://d"}, "http://c:1/x"},
		"configuration wins": {"http://a", env{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://b"}, "http://a/v1/traces"},
		"disabled":           {"http://a", env{"OTEL_SDK_DISABLED": "TRUE"}, ""},
		"no exporter":        {"", env{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://d"}, ""},
	} {
		s, on, err := read(c.config, c.env)
		if err != nil || on != (c.want != "") {
			t.Errorf("%s: on %v, %v", name, on, err)
			continue
		}
		if on && s.Endpoint.String() != c.want {
			t.Errorf("%s: %s, want %s", name, s.Endpoint, c.want)
		}
	}
}

func TestStandardVariables(t *testing.T) {
	s, on, err := read("http://c:4318", map[string]string{
		"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
		"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20abc, x-tenant=t1", "OTEL_EXPORTER_OTLP_TIMEOUT": "2500",
		"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_EXPORTER_OTLP_CERTIFICATE": "/ca.pem",
		"OTEL_SERVICE_NAME": "mine", "OTEL_RESOURCE_ATTRIBUTES": "service.name=other,deployment.environment.name=lab",
		"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25",
		"OTEL_BSP_MAX_QUEUE_SIZE": "100", "OTEL_BSP_SCHEDULE_DELAY": "50",
	})
	if err != nil || !on {
		t.Fatal(on, err)
	}
	if s.Headers.Get("Authorization") != "Bearer abc" || s.Headers.Get("X-Tenant") != "t1" {
		t.Errorf("headers %v", s.Headers)
	}
	if s.Timeout != 2500*time.Millisecond || !s.Gzip || s.CA != "/ca.pem" || s.Service != "mine" {
		t.Errorf("%+v", s)
	}
	if len(s.Resource) != 1 || string(s.Resource[0].Key) != "deployment.environment.name" {
		t.Errorf("resource %v", s.Resource)
	}
	if want := sdk.ParentBased(sdk.TraceIDRatioBased(0.25)).Description(); s.Sampler.Description() != want {
		t.Errorf("sampler %s, want %s", s.Sampler.Description(), want)
	}
	if s.Queue != 100 || s.Batch != 100 || s.Delay != 50*time.Millisecond {
		t.Errorf("queue %d, batch %d, delay %v: a batch cannot be larger than the queue", s.Queue, s.Batch, s.Delay)
	}
}

func TestWrongVariablesAreNamed(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "127.0.0.1:4318",
		"OTEL_EXPORTER_OTLP_PROTOCOL":        "grpc",
		"OTEL_EXPORTER_OTLP_COMPRESSION":     "zstd",
		"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT":  "10s",
		"OTEL_EXPORTER_OTLP_HEADERS":         "authorization: Bearer s3cret",
		"OTEL_TRACES_SAMPLER":                "sometimes",
		"OTEL_TRACES_SAMPLER_ARG":            "1.5",
		"OTEL_BSP_MAX_QUEUE_SIZE":            "0",
		"OTEL_RESOURCE_ATTRIBUTES":           "just-a-word",
	} {
		env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}
		maps.Copy(env, map[string]string{name: value})
		_, on, err := read("", env)
		if err == nil || on || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: on %v, error %v", name, value, on, err)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error repeats a credential: %v", err)
		}
	}
	if _, _, err := read("collector:4318", nil); err == nil || !strings.Contains(err.Error(), "such as http://127.0.0.1:4318") {
		t.Errorf("an address without scheme: %v", err)
	}
}
