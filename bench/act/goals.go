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
}

func (b *bench) reach(g goal) { b.goals = append(b.goals, g) }

// verdict says whether a goal was reached.
func (g goal) verdict() string {
	switch {
	case g.got == nil:
		return "not measured"
	case g.most == nil && g.least == nil:
		return ""
	case g.most != nil && *g.got > *g.most, g.least != nil && *g.got < *g.least:
		return "NOT REACHED"
	}
	return "reached"
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

// writeGoals shows all goals.
func writeGoals(w io.Writer, goals []goal) {
	fmt.Fprintf(w, "\nGoals\n  %-70s %-58s %8s %8s %8s\n", "", "", "native", "act", "goal")
	for _, g := range goals {
		fmt.Fprintf(w, "  %-70s %-58s %8s %8s %8s  %s\n", g.what, g.where, figure(g.native), figure(g.got), g.wanted(), g.verdict())
	}
}
