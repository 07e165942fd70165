package tracing

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Settings say where spans go and which.
type Settings struct {
	Endpoint *url.URL      // whole address of a POST
	Headers  http.Header   // credentials, mostly: never logged
	Timeout  time.Duration // of one POST
	Gzip     bool
	// Certificate files, "" for none: the collector's authority, our own pair.
	CA, Cert, Key string

	Service  string
	Resource []attribute.KeyValue
	Sampler  sdk.Sampler

	Queue int           // spans that may wait
	Batch int           // spans of one POST
	Delay time.Duration // until a batch that is not full is sent
}

// The defaults are those of the specification (opentelemetry.io/docs/specs/
// otel/configuration/sdk-environment-variables).
func defaults() Settings {
	return Settings{
		Headers: http.Header{}, Timeout: 10 * time.Second, Service: "warden", Sampler: sdk.ParentBased(sdk.AlwaysSample()),
		Queue: 2048, Batch: 512, Delay: 5 * time.Second,
	}
}

// Read makes Settings of an endpoint, which may be empty, and the standard
// variables. on is false when spans have nowhere to go, or shall go nowhere.
func Read(endpoint string, lookup func(string) (string, bool)) (s Settings, on bool, err error) {
	v := variables{lookup: lookup}
	if strings.EqualFold(v.get("OTEL_SDK_DISABLED"), "true") {
		return Settings{}, false, nil
	}
	s = defaults()
	switch own, all := v.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), v.get("OTEL_EXPORTER_OTLP_ENDPOINT"); {
	case endpoint != "":
		s.Endpoint, err = ParseEndpoint(endpoint)
	case v.get("OTEL_TRACES_EXPORTER") == "none":
		return Settings{}, false, nil
	case own != "":
		s.Endpoint, err = parseURL("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", own)
	case all != "":
		if s.Endpoint, err = parseURL("OTEL_EXPORTER_OTLP_ENDPOINT", all); err == nil {
			s.Endpoint = s.Endpoint.JoinPath("v1/traces")
		}
	default:
		return Settings{}, false, nil
	}
	if err != nil {
		return Settings{}, false, err
	}
	v.transport(&s)
	v.spans(&s)
	return s, v.err == nil, v.err
}

// ParseEndpoint reads a collector's address; one without a path means the
// usual /v1/traces there.
func ParseEndpoint(text string) (*url.URL, error) {
	u, err := parseURL("tracing endpoint", text)
	if err == nil && strings.Trim(u.Path, "/") == "" {
		u = u.JoinPath("v1/traces")
	}
	return u, err
}

func parseURL(what, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%s %q: must be the http:// or https:// address of a collector, such as http://127.0.0.1:4318", what, text)
	}
	return u, nil
}

// variables reads settings and keeps the first error.
type variables struct {
	lookup func(string) (string, bool)
	err    error
}

func (v *variables) get(name string) string {
	text, _ := v.lookup(name)
	return strings.TrimSpace(text)
}

// otlp is an exporter's variable: the one for traces wins over the one for all.
func (v *variables) otlp(name string) (text, from string) {
	for _, from := range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
		if text := v.get(from); text != "" {
			return text, from
		}
	}
	return "", ""
}

func (v *variables) fail(format string, args ...any) {
	if v.err == nil {
		v.err = fmt.Errorf(format, args...)
	}
}

func (v *variables) number(name string, into *int) {
	text := v.get(name)
	if text == "" {
		return
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		v.fail("%s %q: must be a number of at least 1", name, text)
		return
	}
	*into = n
}

func (v *variables) transport(s *Settings) {
	if text, from := v.otlp("PROTOCOL"); text != "" && text != "http/protobuf" {
		v.fail("%s %q: warden speaks http/protobuf only; collectors take it on port 4318", from, text)
	}
	if text, from := v.otlp("COMPRESSION"); text != "" {
		s.Gzip = text == "gzip"
		if !s.Gzip && text != "none" {
			v.fail("%s %q: must be gzip or none", from, text)
		}
	}
	if text, from := v.otlp("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms < 1 {
			v.fail("%s %q: must be a number of milliseconds", from, text)
		}
		s.Timeout = time.Duration(ms) * time.Millisecond
	}
	headers, from := v.otlp("HEADERS")
	for name, value := range v.pairs(from, headers) {
		s.Headers.Set(name, value)
	}
	s.CA, _ = v.otlp("CERTIFICATE")
	s.Cert, _ = v.otlp("CLIENT_CERTIFICATE")
	s.Key, _ = v.otlp("CLIENT_KEY")
}

func (v *variables) spans(s *Settings) {
	for name, value := range v.pairs("OTEL_RESOURCE_ATTRIBUTES", v.get("OTEL_RESOURCE_ATTRIBUTES")) {
		if name == "service.name" {
			s.Service = value
			continue
		}
		s.Resource = append(s.Resource, attribute.String(name, value))
	}
	if name := v.get("OTEL_SERVICE_NAME"); name != "" {
		s.Service = name
	}
	v.sampler(s)
	v.number("OTEL_BSP_MAX_QUEUE_SIZE", &s.Queue)
	v.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", &s.Batch)
	s.Batch = min(s.Batch, s.Queue)
	ms := int(s.Delay.Milliseconds())
	v.number("OTEL_BSP_SCHEDULE_DELAY", &ms)
	s.Delay = time.Duration(ms) * time.Millisecond
}

func (v *variables) sampler(s *Settings) {
	ratio := 1.0
	if text := v.get("OTEL_TRACES_SAMPLER_ARG"); text != "" {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n >= 0 && n <= 1) {
			v.fail("OTEL_TRACES_SAMPLER_ARG %q: must be a share from 0 to 1", text)
		}
		ratio = n
	}
	switch name := strings.ToLower(v.get("OTEL_TRACES_SAMPLER")); name {
	case "", "parentbased_always_on":
	case "always_on":
		s.Sampler = sdk.AlwaysSample()
	case "always_off":
		s.Sampler = sdk.NeverSample()
	case "traceidratio":
		s.Sampler = sdk.TraceIDRatioBased(ratio)
	case "parentbased_always_off":
		s.Sampler = sdk.ParentBased(sdk.NeverSample())
	case "parentbased_traceidratio":
		s.Sampler = sdk.ParentBased(sdk.TraceIDRatioBased(ratio))
	default:
		v.fail("OTEL_TRACES_SAMPLER %q: must be always_on, always_off, traceidratio or parentbased_ and one of these", name)
	}
}

// pairs reads name=value,name=value with percent-encoded values. Errors do not
// repeat a value: it may be a credential.
func (v *variables) pairs(from, text string) map[string]string {
	found := map[string]string{}
	for i, pair := range strings.Split(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			v.fail("%s: pair %d is not name=value", from, i+1)
			continue
		}
		found[name] = value
	}
	return found
}
