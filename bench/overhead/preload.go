package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mpitrace/mpitrace/internal/stats"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// processLimit is the most ns that preloading may add to a process that does
// not use MPI.
const processLimit = 300e3

// preloaded holds the times of whole processes, in ns.
type preloaded struct{ *figures }

// measurePreload starts processes without MPI, natively and with the shim. One
// run of the program is one repetition of both.
func measurePreload(opt options, scratch string) (result, error) {
	program := filepath.Join(scratch, "preload")
	if err := build("cc", program, "preload"); err != nil {
		return nil, err
	}
	library, err := filepath.EvalSymlinks(opt.shim)
	if err != nil {
		return nil, fmt.Errorf("library to preload: %w", err)
	}
	p := preloaded{newFigures(mpijob.MPI{Name: "no-MPI"}, nil, []variant{{name: nativeName}, shimVariant(opt, shimName)})}
	for rep := range opt.repetitions {
		cmd := exec.Command(program, library)
		cmd.Env = mpijob.Environ("OVERHEAD_CORES=" + cores())
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		stdout, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %s", cmd, err, bytes.TrimSpace(stderr.Bytes()))
		}
		if err := p.add(stdout); err != nil {
			return nil, err
		}
		progress("without MPI: repetition %d of %d", rep+1, opt.repetitions)
	}
	progress("")
	return p, nil
}

// add takes the lines "start COMMAND NATIVE_NS PRELOADED_NS" of one run.
func (p preloaded) add(stdout []byte) error {
	found := 0
	for _, line := range strings.Split(string(stdout), "\n") {
		fields := strings.Fields(line)
		if len(fields) != 4 || fields[0] != "start" {
			continue
		}
		for i, name := range []string{nativeName, shimName} {
			ns, err := strconv.ParseFloat(fields[2+i], 64)
			if err != nil {
				return fmt.Errorf("line %q: %w", line, err)
			}
			p.append(name, "start_"+fields[1], ns)
		}
		found++
	}
	if found == 0 {
		return fmt.Errorf("no start line in the output %q", stdout)
	}
	return nil
}

// table prints the times in µs.
func (p preloaded) table() (text string, within bool) {
	var b strings.Builder
	within = true
	fmt.Fprintf(&b, "\nprocesses without MPI, %d repetitions; native µs per process (median), added µs (median of paired differences, ± half the quartile distance)\n", len(p.ns[figure{nativeName, p.loops[0]}]))
	p.head(&b)
	for _, loop := range p.loops {
		ns, spread, ok := p.addedByShim(loop)
		verdict, keeps := compare(ok, ns/1e3, processLimit/1e3)
		within = within && keeps
		fmt.Fprintf(&b, "%-22s%9.1f%s  %s\n", loop, stats.Median(p.ns[figure{nativeName, loop}])/1e3, cell(ns/1e3, spread/1e3, ok), verdict)
	}
	return b.String(), within
}
