package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// WriteJSON writes the whole report (docs/report-json.md), one element of each
// list per line. Elements are written one by one: the text of a large job is
// never in memory as a whole.
func (r *Report) WriteJSON(w io.Writer) error {
	r.Resolve()
	out := &jsonWriter{w: bufio.NewWriterSize(w, 1<<16)}
	out.text("{")
	out.field("schema", r.Schema)
	out.field("job", &r.Job)
	writeList(out, "stuck", r.Stuck)
	writeList(out, "functions", r.Functions)
	writeList(out, "sites", r.Sites)
	writeList(out, "ranks", r.Ranks)
	writeList(out, "pairs", r.Pairs)
	writeList(out, "communicators", r.Comms)
	writeList(out, "datatypes", r.Types)
	writeList(out, "phases", r.Phases)
	writeList(out, "arrivals", r.Arrivals)
	writeList(out, "reuse", r.Reuse)
	writeList(out, "overlap", r.Overlap)
	out.field("trace", r.Trace)
	out.field("network", r.Network)
	out.field("act", r.Act)
	writeList(out, "clocks", r.Clocks)
	writeList(out, "findings", r.Findings)
	writeList(out, "problems", r.Problems)
	out.text("\n}\n")
	if out.err == nil {
		out.err = out.w.Flush()
	}
	if out.err != nil {
		return fmt.Errorf("report as JSON: %w", out.err)
	}
	return nil
}

// jsonWriter writes the members of one object. The first error stays.
type jsonWriter struct {
	w      *bufio.Writer
	err    error
	fields int
}

func (j *jsonWriter) text(text string) {
	if j.err == nil {
		_, j.err = j.w.WriteString(text)
	}
}

func (j *jsonWriter) value(value any) {
	data, err := json.Marshal(value)
	if j.err == nil {
		j.err = err
	}
	if j.err == nil {
		_, j.err = j.w.Write(data)
	}
}

// name begins a member.
func (j *jsonWriter) name(name string) {
	if j.fields > 0 {
		j.text(",")
	}
	j.fields++
	j.text("\n\"" + name + "\": ")
}

func (j *jsonWriter) field(name string, value any) {
	j.name(name)
	j.value(value)
}

func writeList[T any](j *jsonWriter, name string, list []T) {
	j.name(name)
	j.text("[")
	for i := range list {
		if i > 0 {
			j.text(",")
		}
		j.text("\n ")
		j.value(&list[i])
	}
	j.text("]")
}
