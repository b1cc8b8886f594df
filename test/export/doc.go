// Package export tests mpitrace export on real jobs: both MPIs run programs of
// this tree with a trace, and what the tools of each format read agrees with
// the trace.
//
// It must not contain: tests that need no job; those are beside each package.
package export
