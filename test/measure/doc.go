// Package measure tests whether mpitrace tells the truth: real programs do
// something known, keep a ledger of it by a clock of their own, and what the
// packages arrival, reusetrack and segment say of the result must be what
// stands in the ledger. Every kind of comparison has a negative control: a
// ledger that was falsified by a tenth must not be accepted.
//
// Where the processor may be taken away between a moment of the ledger and the
// one that the shim takes, a test may try again, attempts times at most.
//
// It must not contain: assertions on how fast anything is.
package measure
