// Package presence is the rendezvous of act mode: before the first message of
// ours, the ranks of a job tell mpitrace run that they are there, what they
// carry, and that they can, and are all given one verdict. No MPI is involved,
// for a rank without the shim would never answer.
//
// It must not know how ranks are launched, nor what a policy means.
//
// The talk is in lines. The server speaks first, so that a rank that reaches
// something else at this address does not tell it the secret:
//
//	server  mpitrace-presence 1 ID
//	rank    report <tab> name=value <tab> ...   (see Report)
//	server  go | observe REASON
//	rank    loaded | refused REASON             (after go: the runtime)
//	server  go | observe REASON
package presence
