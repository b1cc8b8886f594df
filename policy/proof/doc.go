// Package proof decides whether a protocol that is predicted to pay does pay, in
// the job itself: epochs of messages by the one and by the other alternate, each
// pair of neighbouring epochs is compared, and the newcomer stays only if it is
// shown to be faster. It is retreated from if it is shown to be slower, or if
// nothing is shown in time. What was decided holds for a while, longer each time
// that it is confirmed, and then is tried again: what was kept before stays unless
// it is shown to be slower.
//
// The package has no clock and sends nothing: who calls it times the epochs.
package proof
