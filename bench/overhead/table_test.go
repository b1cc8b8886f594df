package main

import (
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/conformance/mpirun"
)

func TestQuantile(t *testing.T) {
	values := []float64{4, 1, 3, 2}
	for _, c := range []struct{ q, want float64 }{{0, 1}, {0.5, 2.5}, {1, 4}, {0.25, 1.75}} {
		if got := quantile(values, c.q); got != c.want {
			t.Errorf("quantile %v is %v, want %v", c.q, got, c.want)
		}
	}
	if values[0] != 4 {
		t.Error("quantile sorted the caller's values")
	}
}

// synthetic makes figures in which the shim adds the given time everywhere
// while the machine drifts from repetition to repetition.
func synthetic(t *testing.T, addedNs string) *figures {
	t.Helper()
	f := &figures{
		mpi: mpirun.All[0], variants: []variant{{name: "native"}, {name: shimName}},
		failed: map[string]string{}, ns: map[figure][]float64{},
	}
	for _, loop := range []string{"Comm_rank", "Iprobe", "Sendrecv", "Sendrecv_64x13", "Irecv+Send+Wait", "Allreduce", "2ranks_Allreduce"} {
		if err := f.add("native", []byte("result "+loop+" 100\nresult "+loop+" 200\n")); err != nil {
			t.Fatal(err)
		}
		first, second := "1"+addedNs, "2"+addedNs
		if err := f.add(shimName, []byte("result "+loop+" "+first+"\nresult "+loop+" "+second+"\n")); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func TestTableWithinLimits(t *testing.T) {
	text, within := synthetic(t, "15").table()
	if !within {
		t.Errorf("15 ns everywhere is within all limits, but the table says not:\n%s", text)
	}
	if !strings.Contains(text, "+15.0") {
		t.Errorf("paired differences of 15 ns are not in the table:\n%s", text)
	}
}

func TestTableOverLimits(t *testing.T) {
	text, within := synthetic(t, "22").table()
	if within || strings.Count(text, "OVER") != 1 {
		t.Errorf("22 ns is over the limit of Comm_rank alone:\n%s", text)
	}
}

func TestAddRefusesOutputWithoutResults(t *testing.T) {
	f := &figures{variants: []variant{{name: "native"}}, ns: map[figure][]float64{}}
	if err := f.add("native", []byte("nothing\n")); err == nil {
		t.Error("output without a result line was taken")
	}
	if err := f.add("native", []byte("result x fast\n")); err == nil {
		t.Error("a result that is no number was taken")
	}
}
