// Package symbols turns places in programs and libraries into functions and
// source lines:
//
//	r := symbols.New(symbols.Options{})
//	place := r.Lookup("/opt/app/bin/solver", "1f3a…", 0x41d2)
//	fmt.Println(place.Function, place.File, place.Line)
//
// It reads symbol tables and DWARF with debug/elf and debug/dwarf, in the file
// itself or in a separate debug file found by build id or debug link. Whatever
// has another build id than the program that ran is refused: wrong lines are
// worse than none. What cannot be found is left empty and Note says why.
//
// It knows nothing of segments, ranks or MPI.
package symbols
