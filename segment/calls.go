package segment

import "strconv"

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

// CallByName returns the id of a function, or false.
func CallByName(name string) (Call, bool) {
	for id, f := range functions {
		if f.name == name {
			return id, true
		}
	}
	return 0, false
}
