package packagetest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// TestManual: every page renders without a warning of groff or of mandoc, and
// man finds it.
func TestManual(t *testing.T) {
	mpijob.Need(t, mpijob.Tools("man-db mandoc", "man", "mandoc"))
	copied := install(t)
	pages, err := filepath.Glob(copied + "/share/man/man1/*.1")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".1")
		out := outcome(t, limit, "", []string{"LC_ALL=C.UTF-8", "MANWIDTH=80"}, "man", "--warnings", "-M", copied+"/share/man", name)
		if text := string(out.Stdout); out.Status != 0 || len(out.Stderr) > 0 || !strings.Contains(text, "\n       "+name+" - ") {
			t.Errorf("man %s: status %d, %s%s", name, out.Status, out.Stderr, text)
		}
		if out := outcome(t, limit, "", nil, "mandoc", "-Tlint", page); out.Status != 0 {
			t.Errorf("mandoc -Tlint: %s%s", out.Stdout, out.Stderr)
		}
	}
}
