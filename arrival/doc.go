// Package arrival tells how unevenly ranks arrive at collective operations,
// what that costs, who is late, and which messages wait for their other end.
// It owns the alignment of clocks of different nodes, the arrival metrics of
// Qian 2010 (chapter 6), wait-state analysis and the matching of messages.
//
// Segments are fed one at a time, then the result is asked for:
//
//	a := arrival.New(arrival.Options{TransferNS: arrival.Hockney(1500, 0.1)})
//	_, err := segment.WalkResult(dir, func(s *segment.Segment) error { a.Add(s); return nil })
//	result := a.Result()
//
// Three things are kept apart:
//
//   - Spread: how far apart the ranks arrived (Qian 2010, Eq. 6.1 to 6.3). It
//     says nothing of cost: nobody waits for a late leaf of a broadcast.
//   - Waiting: the part of the blocked time in which an operation could not be
//     complete, because somebody it depends on had not arrived.
//   - Beyond: the rest of the blocked time, which is the operation itself.
//
// Clocks of different nodes are compared by the samples alone: nobody leaves
// an operation that needs all ranks before the last one has entered it. Each
// comparison carries a bound; a difference within the bound is never claimed.
//
// All figures of time are nanoseconds of the aligned clock as float64.
// Figures of a class come from sampled instances; totals are extrapolated to
// all instances and carry the standard error of doing so.
//
// This package does no I/O, reads no clock and imports nothing of the project
// but segment and internal/stats. It must not contain: reading of files, symbol names of call
// sites, wording for users, decisions of policy. An Analysis is not safe for
// concurrent use.
package arrival
