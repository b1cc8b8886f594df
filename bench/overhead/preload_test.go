package main

import (
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

func TestPreloadTable(t *testing.T) {
	p := preloaded{newFigures(mpijob.MPI{Name: "no-MPI"}, nil, []variant{{name: nativeName}, {name: shimName}})}
	for _, out := range []string{"start true 500000 600000\nstart sh 700000 1100000\n", "start true 900000 1000000\nstart sh 800000 1200000\n"} {
		if err := p.add([]byte(out)); err != nil {
			t.Fatal(err)
		}
	}
	text, within := p.table()
	if within || strings.Count(text, "<= 300 OVER") != 1 || strings.Count(text, "<= 300 ok") != 1 {
		t.Errorf("100 µs are within 300 µs, 400 µs are not:\n%s", text)
	}
	if !strings.Contains(text, "+100.0") || !strings.Contains(text, "+400.0") {
		t.Errorf("the differences are not in the table, in µs:\n%s", text)
	}
	if raw := p.raw(); !strings.Contains(raw, "no-MPI mpitrace start_sh 1100000.000 1200000.000\n") {
		t.Errorf("raw figures are missing:\n%s", raw)
	}
}

func TestPreloadRefusesOutputWithoutStarts(t *testing.T) {
	p := preloaded{newFigures(mpijob.MPI{}, nil, []variant{{name: nativeName}, {name: shimName}})}
	for _, out := range []string{"nothing\n", "start true 5 fast\n"} {
		if err := p.add([]byte(out)); err == nil {
			t.Errorf("%q was taken", out)
		}
	}
}
