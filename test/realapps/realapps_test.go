package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

func TestEssence(t *testing.T) {
	text := "x  PASSED 0.12\nnoise\ny PASSED   0.99 5\n"
	got := essence(text, regexp.MustCompile(`PASSED`), regexp.MustCompile(`\d+\.\d\d(\s|$)`))
	if strings.Join(got, "|") != "x PASSED #|y PASSED # 5" {
		t.Errorf("essence is %q", got)
	}
}

func TestFirstDifference(t *testing.T) {
	golden := []string{"a", "b"}
	if d := firstDifference(golden, []string{"a", "b"}, 0); d != "" {
		t.Errorf("equal outputs differ: %s", d)
	}
	for _, other := range [][]string{{"a"}, {"a", "c"}, {"a", "b", "c"}} {
		if firstDifference(golden, other, 0) == "" {
			t.Errorf("%q was taken for %q", other, golden)
		}
	}
}

func TestTolerance(t *testing.T) {
	golden := []string{"x 1.000000 0"}
	if d := firstDifference(golden, []string{"x 1.000001 0"}, 1e-5); d != "" {
		t.Errorf("a difference below the tolerance counts: %s", d)
	}
	for _, other := range []string{"x 1.1 0", "y 1.000000 0", "x 1.000000", "x 1.000000 1e-9"} {
		if firstDifference(golden, []string{other}, 1e-5) == "" {
			t.Errorf("%q was taken for %q", other, golden[0])
		}
	}
}

// report builds a job of two ranks in which rank 0 sends to rank 1.
func report(t *testing.T, sent, received, freed string) jobReport {
	t.Helper()
	var r jobReport
	text := `{"schema":1,"job":{"ranks":2},"ranks":[
	 {"rank":0,"world":"w","functions":[{"name":"MPI_Send","calls":2}],"peers":[{"rank":1,"sent_messages":` + sent + `,"sent_bytes":16}],"requests":{"freed":` + freed + `}},
	 {"rank":1,"world":"w","functions":[{"name":"MPI_Send","calls":2}],"peers":[{"rank":0,"received_messages":` + received + `,"received_bytes":16}]}]}`
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCrossCheck(t *testing.T) {
	cases := []struct {
		name                  string
		sent, received, freed string
		ranks                 int
		calls                 map[string]uint64
		want                  bool
	}{
		{"agrees", "2", "2", "0", 2, map[string]uint64{"MPI_Send": 2}, true},
		{"lost", "2", "1", "0", 2, nil, false},
		{"invented", "2", "3", "0", 2, nil, false},
		{"freed", "2", "1", "1", 2, nil, true},
		{"ranks", "2", "2", "0", 3, nil, false},
		{"calls", "2", "2", "0", 2, map[string]uint64{"MPI_Send": 3}, false},
	}
	for _, c := range cases {
		_, err := crossCheck(report(t, c.sent, c.received, c.freed), c.ranks, c.calls)
		if (err == nil) != c.want {
			t.Errorf("%s: cross-check says %v", c.name, err)
		}
	}
}
