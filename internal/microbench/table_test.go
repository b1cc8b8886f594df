package microbench

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/internal/golden"
)

// outputs are what the programs of a session printed, one for each run.
type outputs struct {
	name                string
	ranks               int
	natives, preloads   []string
	acts                []string // with the one policy of the session
	warning, failedWith string
}

var session = []outputs{
	{
		name: "latency", ranks: 2,
		natives: []string{
			"result latency size=8 half_rtt_us=0.30 best_us=0.25\nresult latency size=1048576 half_rtt_us=110 best_us=100\ndone verified=10\n",
			"result latency size=8 half_rtt_us=0.40 best_us=0.25\nresult latency size=1048576 half_rtt_us=100 best_us=90\ndone verified=10\n",
			"result latency size=8 half_rtt_us=0.32 best_us=0.27\nresult latency size=1048576 half_rtt_us=105 best_us=95\ndone verified=10\n",
		},
		preloads: []string{
			"result latency size=8 half_rtt_us=0.33 best_us=0.28\nresult latency size=1048576 half_rtt_us=111 best_us=100\ndone verified=10\n",
			"result latency size=8 half_rtt_us=0.42 best_us=0.29\nresult latency size=1048576 half_rtt_us=101 best_us=90\ndone verified=10\n",
			"result latency size=8 half_rtt_us=0.35 best_us=0.30\nresult latency size=1048576 half_rtt_us=104 best_us=95\ndone verified=10\n",
		},
		acts: []string{
			"result latency size=8 half_rtt_us=0.36 best_us=0.28\nresult latency size=1048576 half_rtt_us=55 best_us=50\ndone verified=10\n",
			"result latency size=8 half_rtt_us=0.48 best_us=0.29\nresult latency size=1048576 half_rtt_us=50 best_us=45\ndone verified=10\n",
			"result latency size=8 half_rtt_us=0.32 best_us=0.30\nresult latency size=1048576 half_rtt_us=63 best_us=60\ndone verified=10\n",
		},
	},
	{
		name: "reuse", ranks: 2,
		natives:  []string{"result reuse size=16384 reuse_pct=0 half_rtt_us=7 iterations=40\nresult reuse size=16384 reuse_ratio=1.75\ndone verified=4\n"},
		preloads: []string{"result reuse size=16384 reuse_pct=0 half_rtt_us=7.5 iterations=40\ndone verified=4\n"},
	},
	{
		name: "registration", ranks: 2, // a size refused in all runs, another in some
		natives:  []string{"note mlock refused\nresult registration size=4096 pin_us=1.5 unpin_us=0\ndone verified=1\n"},
		preloads: []string{"note mlock refused\ndone verified=0\n"},
	},
	{
		name: "arrival", ranks: 4, warning: "4 ranks on 2 cores",
		natives: []string{"result arrival op=alltoall size=8192 mif=32 mean_us=40 beyond_us=-0.04 imbalance_us=70 " +
			"message_us=2.25 clock_error_us=0.125 instances=200 late_ranks=0\ndone verified=800\n"},
		preloads: []string{"result arrival op=alltoall size=8192 mif=32 mean_us=41 beyond_us=2 imbalance_us=71 " +
			"message_us=2.5 clock_error_us=0.25 instances=200 late_ranks=0\ndone verified=800\n"},
	},
	{name: "onesided", ranks: 2, failedWith: "native run: exit status 1: bench onesided: rank 1: wrong data: Put, 256 bytes, at byte 0"},
}

func sessionReport(t *testing.T) *Report {
	t.Helper()
	r := &Report{
		Schema: 1, Version: "1.2.3", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Host: "node1",
		Processor: "some processor", Cores: 2, LoadBegin: "0.10", LoadEnd: "0.90",
		Launcher: []string{"mpirun", "--bind-to", "core"}, Compiler: "/usr/bin/mpicc", Shim: "/lib/libmpishim.so", Act: []string{"policies/auto"}, Reps: 3,
	}
	for _, o := range session {
		b := named(t, o.name)
		result := newResult(b, o.ranks, b.arguments(false, o.ranks, nil))
		if o.warning != "" {
			result.Warnings = append(result.Warnings, o.warning)
		}
		result.Error = o.failedWith
		var all runs
		for v, texts := range [][]string{o.natives, o.preloads, o.acts} {
			for _, text := range texts {
				out, err := b.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				all.add(variant(v), out)
			}
		}
		if result.Error == "" {
			result.fill(b, all, r.Act)
		}
		r.Benchmarks = append(r.Benchmarks, result)
	}
	return r
}

func TestTable(t *testing.T) {
	r := sessionReport(t)
	compare := func(name string) {
		var text bytes.Buffer
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, name, text.Bytes())
	}
	compare("act.txt")
	r.Act = nil
	for _, res := range r.Benchmarks {
		for _, row := range res.Rows {
			row.Act = nil
		}
	}
	compare("table.txt")
	r.Shim, r.Quick, r.Reps = "", true, 1
	compare("native.txt")
	if !r.Failed() {
		t.Error("a benchmark failed, but the report does not say so")
	}
}

func TestJSON(t *testing.T) {
	var text bytes.Buffer
	if err := sessionReport(t).WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "report.json", text.Bytes())
	var again Report
	if err := json.Unmarshal(text.Bytes(), &again); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text.Bytes(), []byte("null")) && again.Benchmarks[0].Rows == nil {
		t.Error("a list is null")
	}
}

func TestNumber(t *testing.T) {
	for want, x := range map[string]float64{
		"0": 0, "0.0123": 0.01234, "-0.0400": -0.04, "1.235": 1.23456, "12.35": 12.3456, "123.5": 123.456, "1235": 1234.56, "40": 40, "-2": -2,
	} {
		if got := number(x); got != want {
			t.Errorf("%v is shown as %s, want %s", x, got, want)
		}
	}
}
