package main

import (
	"fmt"
	"io"
	"math"
)

// goal is what act mode is to reach, and what it did.
type goal struct {
	what, where string
	got, native *float64 // nil: not measured; not comparable
	most, least *float64 // nil: shown without a goal
	lower       *float64 // bounds of got; nil: none
	upper       *float64
}

// of is the goal with a quotient as what was reached.
func (g goal) of(q *quotient) goal {
	if q != nil {
		g.got = &q.median
		if !math.IsInf(q.lower, -1) {
			g.lower, g.upper = &q.lower, &q.upper
		}
	}
	return g
}

func (b *bench) reach(g goal) { b.goals = append(b.goals, g) }

// verdict says whether a goal was reached. It was not only if the bounds say so, too.
func (g goal) verdict() string {
	switch {
	case g.got == nil:
		return "not measured"
	case g.most == nil && g.least == nil:
		return ""
	case g.most != nil && *g.got <= *g.most, g.least != nil && *g.got >= *g.least:
		return "reached"
	case g.most != nil && g.lower != nil && *g.lower <= *g.most, g.least != nil && g.upper != nil && *g.upper >= *g.least:
		return "not told from it"
	}
	return "NOT REACHED"
}

// wanted is the goal as text.
func (g goal) wanted() string {
	switch {
	case g.most != nil:
		return fmt.Sprintf("<= %.4g", *g.most)
	case g.least != nil:
		return fmt.Sprintf(">= %.4g", *g.least)
	}
	return "-"
}

func figure(x *float64) string {
	if x == nil {
		return "-"
	}
	if math.Abs(*x) < 0.01 {
		return fmt.Sprintf("%.2g", *x)
	}
	return fmt.Sprintf("%.3f", *x)
}

// bounds are those of what was reached, as text.
func (g goal) bounds() string {
	if g.lower == nil {
		return ""
	}
	return figure(g.lower) + " to " + figure(g.upper)
}

// writeGoals shows all goals.
func writeGoals(w io.Writer, goals []goal) {
	const line = "  %-70s %-58s %8s %8s  %-16s %8s  %s\n"
	fmt.Fprintf(w, "\nGoals\n"+line, "", "", "native", "act", "95 % bounds", "goal", "")
	for _, g := range goals {
		fmt.Fprintf(w, line, g.what, g.where, figure(g.native), figure(g.got), g.bounds(), g.wanted(), g.verdict())
	}
}
