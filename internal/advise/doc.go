// Package advise says, from what was observed alone, how many seconds each
// technique of mpitrace's act mode would have saved a job, and where.
//
//	result := advise.Advise(advise.Input{Ranks: 16, MPINS: mpi, Sites: sites, Reuse: summary.Predictions()})
//	err := result.WriteText(os.Stdout)
//
// It is a pure function of plain figures: seconds come with a range, the
// assumptions behind them and a degree of confidence, and "nothing to gain" is
// an answer like any other.
//
// It owns: which figures speak for which technique (a file each: eager.go,
// rendezvous.go, collective.go), thresholds, confidence, and the text and JSON
// of the result.
//
// It must not contain: reading of segments or reports, the cost model of
// copies (package reusetrack), decisions for a running job, clocks, or any
// input but its arguments.
package advise
