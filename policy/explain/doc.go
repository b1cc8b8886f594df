// Package explain costs what a policy leaves open: for each call site of an
// observed job, what a message would cost with each protocol, and which one is
// cheapest. The model of copies and registration is that of reusetrack; what a
// node costs comes from a Calibration. What is not known is said, never guessed
// in silence.
package explain
