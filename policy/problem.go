package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrPolicy is wrapped by all errors about policies that cannot be used.
var ErrPolicy = errors.New("the policy cannot be used")

// Problem is one thing that is wrong with a policy.
type Problem struct {
	Source string // file or variable that it came from
	Line   int    // from 1; 0: not known
	Column int    // in bytes, from 1
	Path   string // rules[2].use.eager
	Text   string // what is wrong, and what would be right
}

// String is one line: SOURCE:LINE:COLUMN: PATH: TEXT.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Source)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	for _, part := range []string{p.Path, p.Text} {
		if part == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(part)
	}
	return b.String()
}

// Problems is an error that wraps ErrPolicy.
type Problems []Problem

// Error is one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap makes errors.Is(err, ErrPolicy) true.
func (p Problems) Unwrap() error { return ErrPolicy }

// orNil is the problems in the order of the text, or no error.
func (p Problems) orNil() error {
	if len(p) == 0 {
		return nil
	}
	slices.SortStableFunc(p, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return p
}
