package advise

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/mpitrace/mpitrace/internal/figures"
)

// WriteJSON writes the result as one JSON object.
func (r *Result) WriteJSON(w io.Writer) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("advice as JSON: %w", err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// WriteText writes the result for people.
func (r *Result) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Verdict)
	if len(r.Recommendations) > 0 {
		fmt.Fprintf(&b, "Estimates from one run, summed over %s. Nothing was changed.\n", ranksText(r.Ranks))
	}
	for i := range r.Recommendations {
		r.Recommendations[i].write(&b)
	}
	if len(r.Notes) > 0 {
		b.WriteString("\nAlso looked at\n")
		for _, note := range r.Notes {
			fmt.Fprintf(&b, "* %s\n", note)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (f *Recommendation) write(b *strings.Builder) {
	where := f.Function
	if f.Place != "" {
		where += " at " + f.Place
	}
	s := f.SavedSeconds
	fmt.Fprintf(b, "\n%s: %s\n", f.Technique, where)
	fmt.Fprintf(b, "  saves       %s (%s to %s), %s of the MPI time\n", secondsText(s.Expected), secondsText(s.Low), secondsText(s.High), figures.Percent(f.ShareOfMPITime))
	fmt.Fprintf(b, "  confidence  %s: %s\n", f.Confidence, f.Reason)
	if f.RegisteredBuffers > 0 {
		fmt.Fprintf(b, "  registers   %s, %s in all ranks", plural(f.RegisteredBuffers, "buffer"), figures.Bytes(f.RegisteredBytes))
		if f.MinUses > 0 {
			fmt.Fprintf(b, "; pays from %s on", plural(f.MinUses, "use"))
		}
		b.WriteString("\n")
	}
	for i, text := range f.Assumptions {
		head := "assumes"
		if i > 0 {
			head = ""
		}
		fmt.Fprintf(b, "  %-10s  %s\n", head, text)
	}
	fmt.Fprintf(b, "  how         %s\n", f.How)
}

// secondsText writes seconds with three digits.
func secondsText(s float64) string {
	switch {
	case s <= 0:
		return "0 s"
	case s < 1e-6:
		return "below 1 us"
	case s < 0.9995e-3:
		return figures.Digits(s*1e6) + " us"
	case s < 0.9995:
		return figures.Digits(s*1e3) + " ms"
	case s < 7200:
		return figures.Digits(s) + " s"
	}
	return figures.Digits(s/3600) + " h"
}

func plural(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return figures.Count(n) + " " + what + "s"
}

func ranksText(n int) string { return plural(uint64(max(0, n)), "rank") }
