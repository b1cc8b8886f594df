package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// subject is a program whose findings docs/findings.md confirms by its source,
// and what of them does not depend on timing.
type subject struct {
	app
	told    string // a finding must match it; empty: none must
	sends   uint64 // messages sent from buffers that were followed; 0: depends on timing
	buffers uint64 // they come from; 0: depends on the allocator
}

// subjects lists the programs, with few ranks: two processors are enough.
func subjects(home string) []subject {
	heat := []string{"heat", "-n", "1500", "--imbalance", "1:6"}
	list := []subject{
		// heat.c:179 is behind the loop that a slow rank runs several times; rows of 12 kB go
		// up or down, from the first or last row of two grids.
		{example("heat", "openmpi", heat), `arrives last at heat\.c:179 in .* of 200 MPI_Allreduce calls`, 400, 4},
		{example("heat", "mpich", heat), `arrives last at heat\.c:179 in .* of 200 MPI_Allreduce calls`, 400, 4},
		{example("heat_f08", "openmpi", []string{"heat_f08", "-n", "1500", "--imbalance", "0:6"}),
			`arrives last at heat_f08\.f90:168 in .* of 200 MPI_Allreduce calls`, 400, 4},
	}
	told := map[string]subject{
		"hpcc (openmpi)":           {told: `^the program polls: .* calls of MPI_Testany at `},
		"lammps-melt (openmpi)":    {told: `^sends wait .* at the MPI_Send at .*LAMMPS_NS::CommBrick::`},
		"lammps-peptide (openmpi)": {},
		"gromacs (openmpi)":        {},
		"mumps (openmpi)":          {told: `^the program polls: .* calls of MPI_Iprobe at .*dmumps_`},
		"ptscotch-order (openmpi)": {},
		"netpipe (openmpi)":        {told: `^receives wait .* for late senders`, sends: 830},
		"netpipe (mpich)":          {sends: 830},
		"scalapack-xdlu (openmpi)": {},
		"scalapack-xdlu (mpich)":   {},
		"mpi4py (openmpi)":         {sends: 404},
	}
	for _, a := range apps(home) {
		if s, ok := told[a.String()]; ok {
			s.app = a
			if a.name != "hpcc" && (a.name != "scalapack-xdlu" || a.mpi == "mpich") {
				s.ranks = 2 // those two want a grid of 2 x 2
			}
			s.calls = nil // they are of 4 ranks
			list = append(list, s)
		}
	}
	return list
}

// runFindings runs the subjects.
func runFindings(opt options, home string) (passed, failed int, err error) {
	chosen := slices.DeleteFunc(subjects(home), func(s subject) bool { return !opt.chooses(s.app) })
	if len(chosen) == 0 {
		return 0, 0, fmt.Errorf("no program is chosen")
	}
	var list []app
	for _, s := range chosen {
		list = append(list, s.app)
	}
	if err := install(list); err != nil {
		return 0, 0, err
	}
	b, err := newBench(opt)
	if err != nil {
		return 0, 0, err
	}
	defer b.close()
	for i := range chosen {
		if err := b.report(&chosen[i]); err != nil {
			failed++
			fmt.Printf("FAIL %s: %v\n", chosen[i].app, err)
			continue
		}
		passed++
	}
	return passed, failed, nil
}

// example is a program of examples/, which prepare compiles.
func example(name, mpi string, argv []string) app {
	argv = slices.Clone(argv)
	argv[0] = "./" + argv[0]
	return app{name: name, mpi: mpi, ranks: 2, steps: [][]string{argv}}
}

// compile builds an example in the working folder.
func (b *bench) compile(s *subject, dir string) error {
	m := b.mpi[s.mpi]
	source, compiler, extra := "examples/"+s.name+".c", m.CC, "-lm"
	if s.name == "heat_f08" {
		source, compiler, extra = "examples/heat_f08.f90", m.FC, "-J"+dir
	}
	return mpijob.Compile(compiler, filepath.Join(dir, s.name), "-O2", "-g", source, extra)
}

// report runs a subject and prints its findings and advice. The error is what
// is wrong with them.
func (b *bench) report(s *subject) error {
	dir := filepath.Join(b.scratch, "findings")
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("empty %s: %w", dir, err)
	}
	if err := s.layOut(dir); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	if len(s.packages) == 0 {
		if err := b.compile(s, dir); err != nil {
			return err
		}
	}
	var stdin []byte
	if s.stdin != "" {
		text, err := os.ReadFile(filepath.Join(dir, s.stdin))
		if err != nil {
			return fmt.Errorf("input: %w", err)
		}
		stdin = text
	}
	job := mpijob.Job{MPI: b.mpi[s.mpi], Ranks: s.ranks, Argv: s.steps[0], Env: s.env}
	result := filepath.Join(b.scratch, "findings-result")
	if err := os.RemoveAll(result); err != nil {
		return fmt.Errorf("empty %s: %w", result, err)
	}
	argv := append([]string{b.mpitrace, "run", "--trace", "--quiet", "-o", result, "--"}, job.Command()...)
	running, err := mpijob.Start(stepLimit, dir, mpijob.Environ(), argv, stdin)
	if err != nil {
		return err
	}
	out, err := running.Wait()
	if err != nil || out.Status != 0 {
		return fmt.Errorf("status %d: %w\n%s", out.Status, err, out.Stderr)
	}
	return b.judgeFindings(s, result, out.Elapsed)
}

// judgeFindings prints what the result tells and checks it.
func (b *bench) judgeFindings(s *subject, result string, elapsed time.Duration) error {
	var told evidence
	var advice advised
	if err := errors.Join(b.readJSON(&told, "report", "--json", result), b.readJSON(&advice, "advise", "--json", result)); err != nil {
		return err
	}
	fmt.Printf("%s, %d ranks, %.1f s\n", s.app, s.ranks, elapsed.Seconds())
	for _, f := range told.Findings {
		fmt.Printf("  * %s\n", f)
	}
	fmt.Printf("  advise: %s\n", advice.Verdict)
	for _, r := range advice.Recommendations {
		fmt.Printf("  - %s: %s %s, %.3g s\n", r.Technique, r.Function, r.Place, r.SavedSeconds.Expected)
	}
	problems := append(told.contradictions(), advice.contradictions()...)
	if s.told != "" && !slices.ContainsFunc(told.Findings, regexp.MustCompile(s.told).MatchString) {
		problems = append(problems, fmt.Errorf("no finding matches %s", s.told))
	}
	return errors.Join(append(problems, s.countBuffers(&told))...)
}

// countBuffers compares with what the source says.
func (s *subject) countBuffers(told *evidence) error {
	for _, r := range told.Reuse {
		if r.Path != "send" {
			continue
		}
		if s.sends != 0 && r.Accesses != s.sends || s.buffers != 0 && r.Buffers != s.buffers {
			return fmt.Errorf("%d sends from %d buffers, by the source it is %d from %d", r.Accesses, r.Buffers, s.sends, s.buffers)
		}
		return nil
	}
	if s.sends != 0 {
		return fmt.Errorf("no buffers of sends")
	}
	return nil
}
