package xid

import (
	"strconv"
	"strings"
	"time"
)

// Logged is a fault as the kernel's log tells it.
type Logged struct {
	PCIBusID  string // 0000:3b:00.0
	Code      int
	SinceBoot time.Duration // of the machine
	PID       int           // of the program that met it; 0 = not told
}

// ParseRecord reads one record of /dev/kmsg, whose form is
//
//	priority,sequence,microseconds since boot,flags;text
//
// ok is false for every record that is no XID. The driver's text is
// "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off
// the bus."; older drivers leave "PCI:" or the process out.
func ParseRecord(record string) (l Logged, ok bool) {
	head, text, found := strings.Cut(record, ";")
	if !found {
		return Logged{}, false
	}
	fields := strings.Split(head, ",")
	if len(fields) < 3 {
		return Logged{}, false
	}
	micros, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || micros < 0 || micros > int64(maxUptime/time.Microsecond) {
		return Logged{}, false
	}
	rest, found := strings.CutPrefix(text, "NVRM: Xid (")
	if !found {
		return Logged{}, false
	}
	place, rest, found := strings.Cut(rest, "): ")
	if !found {
		return Logged{}, false
	}
	bus, ok := busID(place)
	if !ok {
		return Logged{}, false
	}
	number := rest[:digits(rest)]
	code, err := strconv.Atoi(number)
	if err != nil {
		return Logged{}, false
	}
	return Logged{PCIBusID: bus, Code: code, SinceBoot: time.Duration(micros) * time.Microsecond, PID: pid(rest)}, true
}

// maxUptime keeps a damaged stamp from overflowing a Duration.
const maxUptime = 100 * 365 * 24 * time.Hour

// busID makes "PCI:0000:3B:00" what sysfs says: 0000:3b:00.0.
func busID(place string) (string, bool) {
	id := strings.ToLower(strings.TrimPrefix(place, "PCI:"))
	if strings.Count(id, ":") != 2 || strings.ContainsFunc(id, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef:.", r) }) {
		return "", false
	}
	if !strings.Contains(id, ".") {
		id += ".0"
	}
	return id, true
}

func pid(text string) int {
	_, after, found := strings.Cut(text, "pid=")
	if !found {
		return 0
	}
	after = strings.TrimPrefix(after, "'") // some drivers quote it
	n, err := strconv.Atoi(after[:digits(after)])
	if err != nil {
		return 0
	}
	return n
}

// digits is how many leading bytes of text are decimal digits.
func digits(text string) int {
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return n
}
