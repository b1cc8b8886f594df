package main

import (
	"encoding/json"
	"testing"
)

// sound is a report without contradictions.
const sound = `{"functions":[{"name":"MPI_Allreduce","time_ns":90000},{"name":"MPI_Waitall","time_ns":60000},{"name":"MPI_Send","time_ns":30000}],
 "ranks":[{"wall_ns":900000,"mpi_ns":90000}],
 "arrivals":[{"function":{"name":"MPI_Allreduce"},"blocked":{"ns":90000},"waiting":{"ns":50000},"beyond":{"ns":40000},"unclaimed":{"ns":0},
  "undecided_ns":10000,"ranks":[{"caused_ns":40000,"last_share":0.9}]}],
 "reuse":[{"path":"send","accesses":10,"reused":8,"buffers":2}],
 "overlap":[{"function":{"name":"MPI_Irecv"},"request_ns":70000,"before_ns":10000,"blocked_ns":60000,
  "messages":{"matched":4,"receives":4,"late_senders":3}}],
 "trace":{"late_sender_ns":50000,"late_receiver_ns":20000}}`

func TestContradictions(t *testing.T) {
	set := func(change string) string {
		var all map[string]any
		for _, text := range []string{sound, change} {
			if err := json.Unmarshal([]byte(text), &all); err != nil {
				t.Fatal(err)
			}
		}
		text, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, c := range map[string]struct {
		change string
		want   int
	}{
		"sound":                 {`{}`, 0},
		"rank":                  {`{"ranks":[{"wall_ns":1,"mpi_ns":90000}]}`, 1},
		"waiting beyond calls":  {`{"functions":[{"name":"MPI_Allreduce","time_ns":20000},{"name":"MPI_Waitall","time_ns":60000},{"name":"MPI_Send","time_ns":30000}]}`, 1},
		"no completing calls":   {`{"functions":[{"name":"MPI_Allreduce","time_ns":90000}],"trace":null}`, 1},
		"late senders too much": {`{"trace":{"late_sender_ns":70000,"late_receiver_ns":40000}}`, 2},
		"buffers":               {`{"reuse":[{"path":"send","accesses":10,"reused":11,"buffers":2}]}`, 1},
		"shares":                {`{"arrivals":[{"function":{"name":"x"},"blocked":{"ns":1},"waiting":{"ns":9000},"ranks":[{"caused_ns":20000,"last_share":0.6},{"last_share":0.6}]}]}`, 3},
		"requests":              {`{"overlap":[{"request_ns":1,"before_ns":5000,"blocked_ns":0,"messages":{"late_senders":3}}]}`, 2},
	} {
		var e evidence
		if err := json.Unmarshal([]byte(set(c.change)), &e); err != nil {
			t.Fatal(err)
		}
		if got := e.contradictions(); len(got) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAdviceContradictions(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"nothing":        {`{"mpi_seconds":1,"verdict":"Nothing to gain: x"}`, 0},
		"something":      {`{"mpi_seconds":1,"verdict":"About x","recommendations":[{"saved_seconds":{"low":0.1,"expected":0.2,"high":0.9}}]}`, 0},
		"more than all":  {`{"mpi_seconds":1,"verdict":"About x","recommendations":[{"saved_seconds":{"low":0.1,"expected":1.2,"high":1.5}}]}`, 2},
		"turned around":  {`{"mpi_seconds":1,"verdict":"About x","recommendations":[{"saved_seconds":{"low":0.3,"expected":0.2,"high":0.5}}]}`, 1},
		"wrong sentence": {`{"mpi_seconds":1,"verdict":"About x"}`, 1},
	} {
		var a advised
		if err := json.Unmarshal([]byte(c.text), &a); err != nil {
			t.Fatal(err)
		}
		if got := a.contradictions(); len(got) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
