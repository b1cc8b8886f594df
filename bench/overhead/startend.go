package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mpitrace/mpitrace/internal/stats"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// startEndRanks is how many ranks the job has whose start and end are timed.
const startEndRanks = 4

// startEndLimit is the most ns that the shim may work at start and end.
const startEndLimit = 5e6

// The rows of the table of start and end.
const (
	firstCall   = "first MPI call"
	initWork    = "MPI_Init"
	finalizeEnd = "MPI_Finalize"
	exitWork    = "exit"
	initAndEnd  = "Init + Finalize"
	allOfThem   = "all four"
)

var startEndRows = []string{firstCall, initWork, finalizeEnd, exitWork, initAndEnd, allOfThem}

// startEnd is the shim's own work at start and end of a job on one MPI.
type startEnd struct {
	mpi         mpijob.MPI
	repetitions int
	ns          map[string][]float64 // by row, one figure per rank and repetition
}

// ownWork is that of one rank, by row.
type ownWork map[string]float64

// measureStartEnd runs the job once per repetition.
func measureStartEnd(opt options, mpi mpijob.MPI, scratch string) (result, error) {
	program := program{"startend", startEndRanks}.executable(mpi, scratch)
	clock := program + ".exitclock.so"
	if err := errors.Join(buildLibrary(mpi.CC, clock, "exitclock"), build(mpi.CC, program, "startend", clock)); err != nil {
		return nil, err
	}
	v := shimVariant(opt, shimName)
	if !dedicated(startEndRanks) {
		helpers, err := mpi.Helpers(scratch)
		if err != nil {
			return nil, err
		}
		v.preload = append(v.preload, helpers...)
	}
	s := &startEnd{mpi: mpi, repetitions: opt.repetitions, ns: map[string][]float64{}}
	for rep := range opt.repetitions {
		stdout, err := runJob(mpi, v, startEndRanks, program, scratch)
		if err != nil {
			return nil, err
		}
		if err := s.add(stdout, outputDir(scratch)); err != nil {
			return nil, err
		}
		progress("%s: start and end %d of %d", mpi.Name, rep+1, opt.repetitions)
	}
	progress("")
	return s, nil
}

// add takes the figures of one job from what it printed and from its result.
func (s *startEnd) add(stdout []byte, dir string) error {
	ranks, err := parseRanks(stdout)
	if err != nil {
		return err
	}
	result, err := segment.ReadResult(dir)
	if err != nil {
		return err
	}
	if len(result.Segments) != len(ranks) || len(result.Problems) > 0 {
		return fmt.Errorf("a job of %d ranks left %d segments; problems: %q", len(ranks), len(result.Segments), result.Problems)
	}
	for _, seg := range result.Segments {
		own, ok := ranks[int(seg.Header.WorldRank)]
		if !ok {
			return fmt.Errorf("a segment is of rank %d, which printed nothing", seg.Header.WorldRank)
		}
		own[initWork] = float64(seg.Header.OwnInitNS)
		own[finalizeEnd] = float64(seg.Header.OwnFinalizeNS)
		s.take(own)
	}
	return nil
}

// take adds one rank's figures and their sums.
func (s *startEnd) take(own ownWork) {
	own[initAndEnd] = own[initWork] + own[finalizeEnd]
	own[allOfThem] = own[firstCall] + own[initAndEnd] + own[exitWork]
	for _, row := range startEndRows {
		s.ns[row] = append(s.ns[row], own[row])
	}
}

// parseRanks reads the lines "rank R first_call NS exit NS" of all ranks.
func parseRanks(stdout []byte) (map[int]ownWork, error) {
	ranks := map[int]ownWork{}
	for _, line := range strings.Split(string(stdout), "\n") {
		fields := strings.Fields(line)
		if len(fields) != 6 || fields[0] != "rank" {
			continue
		}
		rank, err := strconv.Atoi(fields[1])
		first, err1 := strconv.ParseFloat(fields[3], 64)
		exit, err2 := strconv.ParseFloat(fields[5], 64)
		if err := errors.Join(err, err1, err2); err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		ranks[rank] = ownWork{firstCall: first, exitWork: exit}
	}
	if len(ranks) != startEndRanks {
		return nil, fmt.Errorf("%d ranks in the output %q, want %d", len(ranks), stdout, startEndRanks)
	}
	return ranks, nil
}

// table compares the sums with the limit by their medians: where ranks share
// processors, the largest figures hold the time in which another rank ran.
func (s *startEnd) table() (text string, within bool) {
	var b strings.Builder
	within = true
	fmt.Fprintf(&b, "\n%s, %d repetitions; own work in µs at start and end of %d ranks, per rank\n", s.mpi.Name, s.repetitions, startEndRanks)
	fmt.Fprintf(&b, "%-22s%9s%9s  limit of %s\n", "in", "median", "largest", shimName)
	for _, row := range startEndRows {
		middle, largest := stats.Median(s.ns[row]), slices.Max(s.ns[row])
		fmt.Fprintf(&b, "%-22s%9.0f%9.0f", row, middle/1e3, largest/1e3)
		if row == initAndEnd || row == allOfThem {
			verdict, ok := compare(true, middle/1e3, startEndLimit/1e3)
			within = within && ok
			fmt.Fprintf(&b, "  %s%s", verdict, largestRemark(largest))
		}
		b.WriteByte('\n')
	}
	return b.String(), within
}

func largestRemark(ns float64) string {
	if ns <= startEndLimit {
		return ""
	}
	return "; the largest is beyond"
}

// raw lists every figure, rank by rank within a repetition.
func (s *startEnd) raw() string {
	var b strings.Builder
	for _, row := range startEndRows {
		b.WriteString(rawLine(s.mpi.Name, shimName, fmt.Sprintf("%dranks_%s", startEndRanks, row), s.ns[row]))
	}
	return b.String()
}
