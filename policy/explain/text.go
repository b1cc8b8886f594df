package explain

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// WriteJSON writes the explanation as JSON.
func (e *Explanation) WriteJSON(w io.Writer) error {
	text, err := json.MarshalIndent(e, "", " ")
	if err != nil {
		return fmt.Errorf("explanation as JSON: %w", err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// WriteText writes the explanation for people.
func (e *Explanation) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Policy %s, with the costs of %s on %s.\n", e.Hash, e.Device, e.Node)
	if len(e.Sites) == 0 {
		b.WriteString("\nThe job sent no messages from process to process.\n")
	}
	for _, s := range e.Sites {
		s.text(&b)
	}
	if len(e.Sizes) > 0 {
		b.WriteString("\nBy function and size, wherever it is called, the chosen one first:\n")
	}
	for _, s := range e.Sizes {
		s.line(&b)
	}
	b.WriteString("\n")
	for _, n := range e.Notes {
		fmt.Fprintf(&b, "Note: %s.\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *Site) text(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s at %s: %d messages of %d bytes on average, %s", s.Function, s.Place, s.Messages, s.MeanBytes, s.Setting)
	if s.Rule != "" {
		fmt.Fprintf(b, ", rule %s", s.Rule)
	}
	b.WriteString("\n")
	for _, c := range s.Candidates {
		mark, cost, note := " ", "     not known", c.Note
		if c.Known {
			cost = fmt.Sprintf("%11.0f ns", c.NS)
		}
		if c.Name == s.Chosen {
			mark, note = ">", strings.Join(append([]string{s.Reason}, nonEmpty(note)...), "; ")
		}
		line := fmt.Sprintf("  %s %-10s %s  %s", mark, c.Name, cost, note)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	if s.Job != "" {
		fmt.Fprintf(b, "    the job %s\n", s.Job)
	}
	in := &s.Inputs
	if s.Setting == "rendezvous" {
		fmt.Fprintf(b, "    from T %.0f ns, of a control message %.0f ns, %.0f ns of other work\n", in.TransferNS, in.ControlNS, in.WindowNS)
		return
	}
	fmt.Fprintf(b, "    from Cm %.0f, Rm %.0f, V %.0f, Lm %.0f, T %.0f ns, %.4g uses of a buffer, %.0f ns of other work\n",
		in.CopyNS, in.RegisterNS, in.LookUpNS, in.ExposedNS, in.TransferNS, in.Uses, in.WindowNS)
}

// line is one line: the chosen candidate, then the others as they come.
func (s *Class) line(b *strings.Builder) {
	var costs []string
	for _, c := range s.Candidates {
		cost := c.Name + " not known"
		if c.Known {
			cost = fmt.Sprintf("%s %.0f ns", c.Name, c.NS)
		}
		if c.Name == s.Chosen {
			costs = slices.Insert(costs, 0, cost)
		} else {
			costs = append(costs, cost)
		}
	}
	fmt.Fprintf(b, "  %-18s %-14s %9d messages  %-10s  %s", s.Function, s.Size, s.Messages, s.Setting, strings.Join(costs, ", "))
	if s.Rule != "" {
		fmt.Fprintf(b, "  rule %s", s.Rule)
	}
	b.WriteString("\n")
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}
