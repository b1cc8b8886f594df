package segment

import (
	"strconv"
	"strings"
)

// Call is the id of an MPI function (spec/mpi.json).
type Call uint32

// String is the name of the function, or "call 17" for an id that this
// version does not know.
func (c Call) String() string {
	if f, ok := functions[c]; ok {
		return f.name
	}
	return "call " + strconv.FormatUint(uint64(c), 10)
}

// Class is the shape of the function, as in spec/mpi.json; empty if unknown.
func (c Call) Class() string { return functions[c].class }

// Setup tells whether the function begins or ends MPI: its time is no MPI time.
func (c Call) Setup() bool {
	switch c.Class() {
	case "init", "finalize", "session_init", "session_finalize":
		return true
	}
	return false
}

// Messages tells whether the function starts, moves or completes messages:
// intercepting it costs own_message_ns of the header, else own_call_ns.
func (c Call) Messages() bool {
	class := c.Class()
	return strings.Contains(class, "send") || strings.Contains(class, "recv") || strings.HasPrefix(class, "wait") ||
		strings.HasPrefix(class, "test") || strings.HasPrefix(class, "start")
}

// CallByName returns the id of a function, or false.
func CallByName(name string) (Call, bool) {
	for id, f := range functions {
		if f.name == name {
			return id, true
		}
	}
	return 0, false
}
