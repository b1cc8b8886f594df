// Package otf2 writes a timeline as an OTF2 archive, for the field's viewers
// (Vampir, Score-P's and Scalasca's tools, otf2-print).
//
//	w := otf2.New(dir, "mpitrace-4711", program)
//	summary, err := timeline.Export(ctx, "mpitrace-4711", w, timeline.Options{})
//
// OTF2 is a C library, and this program is built without C: the small program
// mpitrace-otf2 (c/otf2/), built where the library is installed, does the
// writing. It gets records on its standard input (stream.go, c/otf2/stream.h).
//
// Only results with a trace become an archive: the samples of other results
// would give the statistics of a viewer a part of the calls for the whole.
//
// It must not contain: reading of traces.
package otf2
