// Package top is the live terminal view of a job, mpitrace top: what its ranks
// do in MPI now, how fast, who is late and who is stuck.
//
// A [Source] reads jobs; [Segments] is the one for shared memory, through
// packages segment and report. A [Model] holds two readings in a row and what
// the user chose; keys, sizes and readings make a new Model of it, and its
// screen follows from nothing else:
//
//	m := top.NewModel(top.Options{})
//	m = m.Resize(80, 24).Take(top.Reading{Snapshot: first}).Take(top.Reading{Snapshot: second})
//	fmt.Println(m.Key("s", "s").Text())
//
// [Run] drives a Model in a terminal, [Batch] writes the same as plain text.
//
// The package works out nothing about MPI: shares, calls in progress, who is
// missing and who arrives late come from package report. It must not parse
// segments, and no text that comes from a job reaches the terminal but through
// the one function that cleans it (line.render).
package top
