// Package microbench holds the micro-benchmarks of the papers that mpitrace
// builds on, as small MPI programs in C. It builds them with the MPI compiler
// of the user, runs each natively and with the shim preloaded in turn, and
// sets the medians beside what was published:
//
//	report, err := microbench.Run(ctx, microbench.Options{Names: []string{"latency"}, Shim: shim})
//	err = report.WriteText(os.Stdout)
//
// suite.go lists the benchmarks, published.go the figures of the papers with
// their sources, programs/ has the C side. docs/bench.md says what each one
// measures, and what was decided where a paper leaves something open.
//
// Nothing here judges a time: figures depend on the machine, and the published
// ones come from other hardware.
package microbench
