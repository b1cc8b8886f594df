// Package passtable proves that the shim does no harm: it runs the programs of
// test/programs on each installed MPI, once as they are and once with
// libmpishim.so preloaded, and requires in every row of the table the same
// bytes on stdout, the same exit status, and in the report the calls that the
// program made up to its end, as its opening comment states them.
//
// A row that an MPI cannot run names a reason whose truth is tested instead.
// TestNegativeControl preloads a library that spoils data, under which the same
// comparison has to fail.
//
//	go test ./test/passtable                  # after make build
//	go test ./test/passtable -run TestPassTable/kill
//	go test ./test/passtable -args -table     # also writes docs/pass-table.md
package passtable
