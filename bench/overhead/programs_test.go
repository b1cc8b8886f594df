package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestChoose(t *testing.T) {
	if got, err := choose("tworanks,stack"); err != nil || !slices.Equal(got, []string{"tworanks", "stack"}) {
		t.Errorf("chosen %v, %v", got, err)
	}
	if _, err := choose("self,elf"); err == nil {
		t.Error("a program that does not exist was chosen")
	}
}

func TestFloorBringsItsLoops(t *testing.T) {
	opt := options{programs: []string{"tworanks", floorChoice}}
	if got := opt.callsChosen(); !slices.Equal(got, []program{self, {"tworanks", 2}}) {
		t.Errorf("programs of the table of calls: %v", got)
	}
	opt.programs = []string{stackChoice, initChoice, preloadChoice}
	if got := opt.callsChosen(); len(got) > 0 {
		t.Errorf("the table of calls is not wanted but has %v", got)
	}
}

func TestMeasurementsWithoutShim(t *testing.T) {
	opt := options{programs: choices, mpis: allMPIs}
	if got := len(measurements(opt)); got != len(allMPIs) {
		t.Errorf("without the shim there is one table for each of %d MPIs, not %d tables", len(allMPIs), got)
	}
	opt.shim = "libmpishim.so"
	if got, want := len(measurements(opt)), 3*len(allMPIs)+1; got != want {
		t.Errorf("%d tables, want three per MPI and that of preloading: %d", got, want)
	}
}

func TestSourcesExist(t *testing.T) {
	names := []string{stackProgram.name, "tworeads", "startend", "exitclock", "preload"}
	for _, p := range callPrograms {
		names = append(names, p.name)
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join("../..", source(name))); err != nil {
			t.Error(err)
		}
	}
}
