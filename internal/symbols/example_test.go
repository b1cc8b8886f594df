package symbols_test

import (
	"fmt"

	"github.com/mpitrace/mpitrace/internal/symbols"
)

// A place that was looked up earlier is known without the program.
func ExampleResolver_Lookup() {
	r := symbols.New(symbols.Options{})
	r.Learn("/opt/app/solver", "1f3a", 0x41d2, symbols.Place{Function: "exchange", File: "halo.c", Line: 88})

	place := r.Lookup("/opt/app/solver", "1f3a", 0x41d2)
	fmt.Println(place.Function, place.File, place.Line)
	// Output: exchange halo.c 88
}
