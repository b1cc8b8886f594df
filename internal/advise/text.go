package advise

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
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
	fmt.Fprintf(b, "  saves       %s (%s to %s), %s of the MPI time\n", secondsText(s.Expected), secondsText(s.Low), secondsText(s.High), percent(f.ShareOfMPITime))
	fmt.Fprintf(b, "  confidence  %s: %s\n", f.Confidence, f.Reason)
	if f.RegisteredBuffers > 0 {
		fmt.Fprintf(b, "  registers   %s, %s in all ranks", plural(f.RegisteredBuffers, "buffer"), bytesText(f.RegisteredBytes))
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
		return digits(s*1e6) + " us"
	case s < 0.9995:
		return digits(s*1e3) + " ms"
	case s < 7200:
		return digits(s) + " s"
	}
	return digits(s/3600) + " h"
}

// digits writes a number with three digits, or all of those before the point.
func digits(v float64) string {
	switch {
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// percent writes a share between 0 and 1.
func percent(share float64) string {
	switch {
	case share > 0 && share < 0.0005:
		return "<0.1 %"
	case share >= 0.0995:
		return fmt.Sprintf("%.0f %%", share*100)
	}
	return fmt.Sprintf("%.1f %%", share*100)
}

func bytesText(n uint64) string {
	if n < 10_000 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1000, "kB"
	for _, next := range []string{"MB", "GB", "TB", "PB"} {
		if v < 999.5 {
			break
		}
		v, unit = v/1000, next
	}
	return digits(v) + " " + unit
}

// countText writes a number with commas.
func countText(n uint64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func plural(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return countText(n) + " " + what + "s"
}

func ranksText(n int) string { return plural(uint64(max(0, n)), "rank") }
