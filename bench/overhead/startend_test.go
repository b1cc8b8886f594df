package main

import (
	"strings"
	"testing"
)

// started is a job whose ranks all worked for so many ns in MPI_Init, and
// 1 ms in each of the other three.
func started(init ...float64) *startEnd {
	s := &startEnd{mpi: allMPIs[0], repetitions: 1, ns: map[string][]float64{}}
	for _, ns := range init {
		s.take(ownWork{firstCall: 1e6, initWork: ns, finalizeEnd: 1e6, exitWork: 1e6})
	}
	return s
}

func TestStartEndWithinLimit(t *testing.T) {
	text, within := started(1e6, 2e6, 2e6, 2e6).table()
	if !within || strings.Count(text, " ok\n") != 2 {
		t.Errorf("3 ms in Init and Finalize, 5 ms in all, are within 5 ms:\n%s", text)
	}
	if !strings.Contains(text, "MPI_Init                   2000     2000\n") {
		t.Errorf("median and largest are not in the row of MPI_Init:\n%s", text)
	}
}

func TestStartEndOverLimit(t *testing.T) {
	text, within := started(3e6, 3e6, 3e6).table()
	if within || strings.Count(text, "OVER") != 1 {
		t.Errorf("4 ms in Init and Finalize are within, 6 ms in all are not:\n%s", text)
	}
}

func TestStartEndNamesAnOutlier(t *testing.T) {
	text, within := started(1e6, 1e6, 9e6).table()
	if !within || strings.Count(text, "ok; the largest is beyond") != 2 {
		t.Errorf("the median keeps the limit, one rank does not:\n%s", text)
	}
}

func TestParseRanks(t *testing.T) {
	lines := "rank 1 first_call 20 exit 30\nnoise\nrank 0 first_call 1 exit 2\nrank 3 first_call 1 exit 2\n"
	if _, err := parseRanks([]byte(lines)); err == nil {
		t.Error("a job of which one rank printed nothing was taken")
	}
	ranks, err := parseRanks([]byte(lines + "rank 2 first_call 1 exit 2\n"))
	if err != nil || ranks[1][firstCall] != 20 || ranks[1][exitWork] != 30 {
		t.Errorf("ranks %v, %v", ranks, err)
	}
	if _, err := parseRanks([]byte(lines + "rank 2 first_call soon exit 2\n")); err == nil {
		t.Error("a time that is no number was taken")
	}
}

func TestStartEndRaw(t *testing.T) {
	if raw := started(1e6, 2e6).raw(); !strings.Contains(raw, allMPIs[0].Name+" mpitrace 4ranks_MPI_Init 1000000.000 2000000.000\n") {
		t.Errorf("raw figures of MPI_Init are missing:\n%s", raw)
	}
}
