// Package export is mpitrace export: it chooses the writer of a format, and
// sees to it that an output is there as a whole or not at all.
//
//	done, err := export.Run(ctx, "mpitrace-4711", export.Options{Format: "perfetto"})
//	for _, line := range done.Lines() { fmt.Println(line) }
//
// It must not contain: anything of a format.
package export
