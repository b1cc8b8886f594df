package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// The choices of --programs that are not programs of the table of calls.
const (
	floorChoice   = "floor"   // a column beside self: tworeads.c
	stackChoice   = "stack"   // a table of its own: stack.c
	initChoice    = "init"    // start and end of a job: startend.c
	preloadChoice = "preload" // processes without MPI: preload.c
)

// program is one C program of programs/ whose rows are ns per call.
type program struct {
	name  string
	ranks int
}

var (
	self         = program{"self", 1}
	callPrograms = []program{self, {"cold", 1}, {"threads", 1}, {"tworanks", 2}}
	stackProgram = program{"stack", 1}
)

// choices is all that --programs may name.
var choices = []string{"self", floorChoice, "cold", "threads", "tworanks", stackChoice, initChoice, preloadChoice}

// choose reads a comma-separated list of choices.
func choose(list string) ([]string, error) {
	chosen := strings.Split(list, ",")
	for _, name := range chosen {
		if !slices.Contains(choices, name) {
			return nil, fmt.Errorf("--programs: there is no %q, only %s", name, strings.Join(choices, ", "))
		}
	}
	return chosen, nil
}

func (opt options) chosen(name string) bool { return slices.Contains(opt.programs, name) }

// callsChosen are the programs of the table of calls; floor is a column of
// self and brings it along.
func (opt options) callsChosen() []program {
	return slices.DeleteFunc(slices.Clone(callPrograms), func(p program) bool {
		return !opt.chosen(p.name) && !(p == self && opt.chosen(floorChoice))
	})
}

// dedicated says whether each of so many ranks has a processor of its own.
func dedicated(ranks int) bool { return ranks <= runtime.NumCPU() }

// source is the path of a C file, from the top of the source tree.
func source(name string) string { return filepath.Join("bench/overhead/programs", name+".c") }

// executable is where the program is built for an MPI.
func (p program) executable(mpi mpijob.MPI, scratch string) string {
	return filepath.Join(scratch, p.name+"."+mpi.Name)
}

// build compiles a program or a library; args are added at the end.
func build(compiler, target, name string, args ...string) error {
	flags := []string{"-O2", "-std=gnu11", "-Wall", "-Wno-stringop-overflow", "-pthread", source(name)}
	return mpijob.Compile(compiler, target, append(flags, args...)...)
}

// buildLibrary compiles a library that is preloaded or linked.
func buildLibrary(compiler, target, name string) error {
	return build(compiler, target, name, "-shared", "-fPIC")
}
