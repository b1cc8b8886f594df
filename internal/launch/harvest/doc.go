// Package harvest brings home the segments of processes that died before they
// could: into node files of a result directory (Collect), or away (Clean). It
// looks only at the machine it runs on, and never touches the segment of a
// process that lives or that it cannot judge, such as one in another
// container.
//
// Both may run at any time, several at once, and again: what is already
// collected is gone, and a reader drops what it meets twice.
package harvest
