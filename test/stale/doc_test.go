package stale

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocumented: the table of docs/memory-monitor.md has every way once, with
// what the tests find of it.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/memory-monitor.md")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile("`([a-z0-9-]+)`")
	var documented []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !name.MatchString(cells[4]) {
			continue
		}
		sees := func(cell string) bool { return strings.HasPrefix(strings.TrimSpace(cell), "yes") }
		for _, m := range name.FindAllStringSubmatch(cells[4], -1) {
			documented = append(documented, m[1])
			if sees(cells[2]) == slices.Contains(notByKernel, m[1]) || sees(cells[3]) != slices.Contains(byLibucm, m[1]) {
				t.Errorf("%s: %q and %q, which is not what the tests expect", m[1], cells[2], cells[3])
			}
		}
	}
	all := ways(t, build(t, "gcc"))
	if !slices.Contains(all, "raw-int80") {
		all = append(all, "raw-int80") // of another architecture or kernel
	}
	slices.Sort(all)
	slices.Sort(documented)
	if !slices.Equal(all, documented) {
		t.Errorf("the ways are\n%q, documented are\n%q", all, documented)
	}
}
