// Package timeline turns the trace of a job into calls, messages and requests
// on one time axis, and hands them to a Writer: the exports of package
// perfetto, tables and otf2 below it.
//
//	summary, err := timeline.Export(ctx, "mpitrace-4711", writer, timeline.Options{})
//
// Times are nanoseconds since the first rank entered MPI_Init, on the clock of
// the reference node; clocks are aligned and messages are matched by package
// arrival, as for the report. What the trace does not have becomes a Gap with a
// name, or a count in the Summary; it is never passed over in silence.
//
// # Memory
//
// A trace may be larger than memory. Events are sorted in temporary files
// (package internal/extsort). What is held at once: what a report holds (its
// model and the samples of arrivals, some KiB a rank), two sort buffers
// (Options.Bytes each), the events of one moment of one rank, and a few words
// for each call site, communicator, and span of lost events.
//
// It must not contain: anything of a format, matching of its own, wording of
// tables.
package timeline
