package identity

// Shape describes the beginning of a prompt.
type Shape struct{ Root uint64 }

type print struct{}

func printOf(*Body) print { return print{} }

func describe(root uint64, system [][]byte, tools []tool) *Shape { return &Shape{Root: root} }
