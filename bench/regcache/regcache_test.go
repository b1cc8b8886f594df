package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// TestParts keeps the benchmark runnable, and the optimum the optimum.
func TestParts(t *testing.T) {
	t.Chdir("../..")
	var r report
	for _, p := range parts {
		if p.name == "register" || p.name == "reuse" || p.name == "messages" || p.name == "hit" {
			continue // what is timed there needs a quiet machine, or locked memory
		}
		if err := p.run(options{repetitions: 1}, &r); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
	}
	if !strings.Contains(r.text.String(), "optimum") {
		t.Errorf("no table of evictions:\n%s", &r.text)
	}
	for _, trace := range traces() {
		best := optimum(trace.of)
		plain, err := replay(trace.of, nil)
		if err != nil {
			t.Fatal(err)
		}
		behind, err := replay(trace.of, &table{})
		if err != nil {
			t.Fatal(err)
		}
		if plain != lru(trace.of) {
			t.Errorf("%s: the cache has %v, LRU %v", trace.name, plain, lru(trace.of))
		}
		if plain > best || behind > best {
			t.Errorf("%s: %v and %v are above the optimum %v", trace.name, plain, behind, best)
		}
	}
}

// TestTemporary: what generations by bucket are for.
func TestTemporary(t *testing.T) {
	t.Chdir("../..")
	exe, remove, err := buildTemporary()
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	for _, c := range []struct {
		malloc, place, generations string
		least, most                float64
	}{
		{"adaptive", "near", "bucket", 0.99, 1},
		{"mapped", "far", "bucket", 0.99, 1},
		{"mapped", "far", "process", 0, 0.01},
	} {
		out, err := output(exe, c.malloc, c.place, c.generations, "5000")
		if err != nil {
			t.Fatal(err)
		}
		if share, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64); err != nil || share < c.least || share > c.most {
			t.Errorf("%s %s %s: %v of the look-ups hit, want %v to %v", c.malloc, c.place, c.generations, share, c.least, c.most)
		}
	}
}

// TestMessages: buffers that were used before come out of the cache, and no
// others.
func TestMessages(t *testing.T) {
	t.Chdir("../..")
	exe, remove, err := buildMessages()
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	out, err := output(exe, "shm", "1", "0", "0")
	if err != nil {
		t.Fatal(err)
	}
	for variant, hits := range map[string]int{"100": messages, "50": messages / 2, "0": 0} {
		if line := fmt.Sprintf("\n65536, hits %s: %d\n", variant, hits); !strings.Contains(string(out), line) {
			t.Errorf("no line %q in\n%s", line, out)
		}
	}
}
