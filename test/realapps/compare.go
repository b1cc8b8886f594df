package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// essence keeps the lines that are to be compared, with timings masked and
// blanks made one.
func essence(text string, keep, mask *regexp.Regexp) []string {
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		if keep != nil && !keep.MatchString(line) {
			continue
		}
		if mask != nil {
			line = mask.ReplaceAllString(line, "# ")
		}
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// firstDifference says where two outputs part; empty if they are the same.
// Numbers may differ by the tolerance, relative to the larger one.
func firstDifference(golden, got []string, tolerance float64) string {
	for i := range min(len(golden), len(got)) {
		if golden[i] != got[i] && (tolerance == 0 || !closeLines(golden[i], got[i], tolerance)) {
			return fmt.Sprintf("line %d of the compared ones is %q, without the shim %q", i+1, shorten(got[i]), shorten(golden[i]))
		}
	}
	if len(golden) != len(got) {
		return fmt.Sprintf("%d lines to compare, without the shim %d", len(got), len(golden))
	}
	return ""
}

// closeLines compares word by word, numbers with the tolerance.
func closeLines(a, b string, tolerance float64) bool {
	first, second := strings.Fields(a), strings.Fields(b)
	return slices.EqualFunc(first, second, func(x, y string) bool {
		u, errU := strconv.ParseFloat(x, 64)
		v, errV := strconv.ParseFloat(y, 64)
		if errU != nil || errV != nil {
			return x == y
		}
		return math.Abs(u-v) <= tolerance*max(math.Abs(u), math.Abs(v))
	})
}

func shorten(line string) string {
	if len(line) > 160 {
		return line[:160] + "…"
	}
	return line
}

// sameFiles demands that two files hold the same bytes.
func sameFiles(a, b string) error {
	first, err := os.ReadFile(a)
	if err != nil {
		return fmt.Errorf("compare files: %w", err)
	}
	second, err := os.ReadFile(b)
	if err != nil {
		return fmt.Errorf("compare files: %w", err)
	}
	if !bytes.Equal(first, second) {
		return fmt.Errorf("%s and %s differ", a, b)
	}
	return nil
}

// permutation demands of a Scotch ordering that it names each vertex and
// each place exactly once.
func permutation(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("ordering: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	n, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || n != len(lines)-1 || n == 0 {
		return fmt.Errorf("ordering %s: head %q for %d lines", path, lines[0], len(lines)-1)
	}
	vertices, places := map[int]bool{}, map[int]bool{}
	for _, line := range lines[1:] {
		var vertex, place int
		if _, err := fmt.Sscan(line, &vertex, &place); err != nil {
			return fmt.Errorf("ordering %s: line %q: %w", path, line, err)
		}
		if inside(vertex, n) && inside(place, n) {
			vertices[vertex], places[place] = true, true
		}
	}
	if len(vertices) != n || len(places) != n {
		return fmt.Errorf("ordering %s: %d vertices at %d places of %d", path, len(vertices), len(places), n)
	}
	return nil
}
