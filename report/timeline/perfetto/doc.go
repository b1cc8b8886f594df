// Package perfetto writes a timeline as a Perfetto trace, for ui.perfetto.dev
// and trace_processor (https://perfetto.dev/docs/reference/synthetic-track-event).
//
//	w := perfetto.New(file, perfetto.Options{Version: "1.0"})
//	summary, err := timeline.Export(ctx, "mpitrace-4711", w, timeline.Options{})
//
// One process per rank, sorted by rank, with a thread track per thread, tracks
// for nonblocking receives from their posting to their completion, a track for
// gaps, and a counter with the share of MPI. Matched messages are flows from the
// call that sent to the call that completed the receive. Each track is a packet
// sequence of its own, whose timestamps never decrease.
//
// The messages of the format are written field by field (fields.go): no code
// of the format is generated or linked.
//
// It must not contain: reading of traces.
package perfetto
