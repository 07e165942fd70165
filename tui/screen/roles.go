package screen

import "github.com/lm-warden/warden/tui/cell"

// The roles under short names: they stand on almost every line of this package.
const (
	plain  = cell.Plain
	good   = cell.Good
	warn   = cell.Warn
	bad    = cell.Bad
	accent = cell.Accent
	dim    = cell.Dim
	strong = cell.Strong
)

type role = cell.Role
