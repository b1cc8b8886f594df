// %!s(MISSING)

// Package knobs lists the settings of spec/knobs.json.
package knobs

// Knob is one setting.
type Knob struct {
	Name     string // as in the spec
	Env      string // environment variable
	Flag     string // flag of mpitrace run, empty if it has none
	Type     string
	Default  string
	Values   []string // of an enum
	Min, Max int64    // of an int, if Max is not 0
	Side     string   // shim, run or internal
	Doc      string
}

// All is every setting, in the order of the spec.
var All = []Knob{
	{"mode", "MPITRACE_MODE", "mode", "enum", "observe", []string{"off", "observe"}, 0, 0, "shim", "off: forward every call and measure nothing"},
	{"quiet", "MPITRACE_QUIET", "quiet", "bool", "0", []string(nil), 0, 0, "shim", "print nothing on stderr"},
	{"output", "MPITRACE_OUTPUT", "output", "path", "", []string(nil), 0, 0, "shim", "result directory; default: mpitrace-JOB in the directory where the job was started"},
	{"segment_dir", "MPITRACE_SEGMENT_DIR", "segment-dir", "path", "", []string(nil), 0, 0, "shim", "where the segments live; default /dev/shm/mpitrace-UID, then TMPDIR/mpitrace-UID"},
	{"segment_bytes", "MPITRACE_SEGMENT_BYTES", "segment-bytes", "size", "256K", []string(nil), 0, 0, "shim", "size of a segment when it is made"},
	{"segment_bytes_max", "MPITRACE_SEGMENT_BYTES_MAX", "segment-bytes-max", "size", "4M", []string(nil), 0, 0, "shim", "a segment never grows beyond this"},
	{"clock", "MPITRACE_CLOCK", "clock", "enum", "auto", []string{"auto", "tsc", "vdso"}, 0, 0, "shim", "time source; auto takes the TSC where the processor and the kernel both trust it"},
	{"stack", "MPITRACE_STACK", "stack", "int", "0", []string(nil), 0, 16, "shim", "return addresses to keep outward of each call site"},
	{"skip", "MPITRACE_SKIP", "skip", "list", "", []string(nil), 0, 0, "shim", "communication libraries to step out of when a call site is sought, by the beginning of their file name (libpetsc,libHYPRE)"},
	{"job_id", "MPITRACE_JOB_ID", "", "text", "", []string(nil), 0, 0, "internal", "names the job, set by mpitrace run; default: from the launcher"},
	{"keep_segments", "MPITRACE_KEEP_SEGMENTS", "keep-segments", "bool", "0", []string(nil), 0, 0, "shim", "leave the segments in shared memory after the node file is written"},
}
