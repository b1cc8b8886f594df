package microbench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Output is what one run of a program printed.
type Output struct {
	Points   []Point
	Notes    []string
	Verified uint64 // messages whose data was checked
	Where    Where  // of a program that says it
}

// Where is a node and the MPI library that was used within it.
type Where struct{ Node, MPI string }

// Point is one result line.
type Point struct {
	Dims   []Dim              // in the order of the benchmark's
	Values map[string]float64 // metrics and context
}

// Dim says what was measured: size=1024.
type Dim struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// id tells the points of a run apart.
func (p Point) id() string { return dimsID(p.Dims) }

func dimsID(dims []Dim) string {
	words := make([]string, len(dims))
	for i, d := range dims {
		words[i] = d.Key + "=" + d.Value
	}
	return strings.Join(words, " ")
}

// Parse reads what a program of the benchmark printed. Lines that are none of
// "result", "note", "where" and "done" are those of launchers and libraries. An output
// without the last line, or without results and a note that says why, is an
// error: the program did not come to its end.
func (b *Benchmark) Parse(text string) (Output, error) {
	var out Output
	done := false
	seen := map[string]bool{}
	for _, line := range strings.Split(text, "\n") {
		word, rest, _ := strings.Cut(strings.TrimRight(line, "\r"), " ")
		switch word {
		case "note":
			out.Notes = append(out.Notes, rest)
		case "where":
			out.Where.Node, out.Where.MPI, _ = strings.Cut(rest, "\t")
		case "result":
			p, err := b.parsePoint(rest)
			if err != nil {
				return out, fmt.Errorf("%q: %w", line, err)
			}
			if seen[p.id()] {
				return out, fmt.Errorf("%q: a second result of the same point", line)
			}
			seen[p.id()] = true
			out.Points = append(out.Points, p)
		case "done":
			n, err := parseDone(rest)
			if err != nil || done {
				return out, fmt.Errorf("%q: not the end of one run", line)
			}
			out.Verified, done = n, true
		}
	}
	return out, b.complete(out, done)
}

// complete says what is missing in an output.
func (b *Benchmark) complete(out Output, done bool) error {
	switch {
	case !done:
		return fmt.Errorf("%s did not print its last line, so it did not come to its end", b.Name)
	case len(out.Points) == 0 && len(out.Notes) == 0:
		return fmt.Errorf("%s printed no result", b.Name)
	case len(out.Points) > 0 && out.Verified == 0:
		return fmt.Errorf("%s verified no data", b.Name)
	}
	return nil
}

func parseDone(rest string) (uint64, error) {
	text, ok := strings.CutPrefix(rest, "verified=")
	if !ok {
		return 0, fmt.Errorf("no verified=N")
	}
	return strconv.ParseUint(text, 10, 64)
}

// parsePoint reads "NAME key=value ...".
func (b *Benchmark) parsePoint(rest string) (Point, error) {
	fields := strings.Fields(rest)
	if len(fields) == 0 || fields[0] != b.Name {
		return Point{}, fmt.Errorf("not a result of %s", b.Name)
	}
	pairs, err := parsePairs(fields[1:])
	if err != nil {
		return Point{}, err
	}
	p := Point{Values: map[string]float64{}}
	for _, key := range b.Dims {
		if value, ok := pairs[key]; ok {
			p.Dims = append(p.Dims, Dim{key, value})
			delete(pairs, key)
		}
	}
	for key, value := range pairs {
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return p, fmt.Errorf("%s: %q is not a number", key, value)
		}
		p.Values[key] = x
	}
	if !slices.ContainsFunc(b.Metrics, func(m Metric) bool { _, ok := p.Values[m.Key]; return ok }) {
		return p, fmt.Errorf("no value of %s", b.Name)
	}
	return p, nil
}

// parsePairs reads key=value, each key once.
func parsePairs(fields []string) (map[string]string, error) {
	pairs := map[string]string{}
	for _, field := range fields {
		key, value, ok := strings.Cut(field, "=")
		if !ok || key == "" || value == "" {
			return nil, fmt.Errorf("%q is not key=value", field)
		}
		if _, twice := pairs[key]; twice {
			return nil, fmt.Errorf("%s comes twice", key)
		}
		pairs[key] = value
	}
	return pairs, nil
}
