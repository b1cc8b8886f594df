package microbench

import "testing"

// latencyReport is one with the given medians, in us, of 8 bytes and 1 MiB.
func latencyReport(small, large float64) *Report {
	row := func(size string, us float64) *Row {
		return &Row{Dims: []Dim{{"size", size}}, Metric: "half_rtt_us", Native: newSample([]float64{9 * us}), Context: []Context{{Key: "best_us", Median: us}}}
	}
	return &Report{Benchmarks: []*Result{{Name: "latency", where: Where{"node1", "Some MPI"}, Rows: []*Row{
		row("1048576", large), {Metric: "half_rtt_us"}, row("8", small), row("1024", 50),
	}}}}
}

func TestCalibration(t *testing.T) {
	c, ok := latencyReport(1.008, 1+1048.576).Calibration()
	if !ok || c.Where != (Where{"node1", "Some MPI"}) || c.StartupNS < 999.999 || c.StartupNS > 1000.001 || c.NSPerByte < 0.999999 || c.NSPerByte > 1.000001 {
		t.Errorf("%+v, %v: a start of 1 us and 1 ns a byte were measured", c, ok)
	}
	for name, spoil := range map[string]func(r *Report){
		"smoke run":         func(r *Report) { r.Quick = true },
		"failed":            func(r *Report) { r.Benchmarks[0].Error = "wrong data" },
		"several nodes":     func(r *Report) { r.Benchmarks[0].where = Where{} },
		"another benchmark": func(r *Report) { r.Benchmarks[0].Name = "bandwidth" },
		"one size":          func(r *Report) { r.Benchmarks[0].Rows = r.Benchmarks[0].Rows[:1] },
		"against the model": func(r *Report) { r.Benchmarks[0].Rows[0].Context[0].Median = 0.5 },
	} {
		r := latencyReport(1, 1000)
		spoil(r)
		if c, ok := r.Calibration(); ok {
			t.Errorf("%s: calibration %+v", name, c)
		}
	}
}

// TestWhere: where a run was is taken over if all runs were there.
func TestWhere(t *testing.T) {
	b := Suite[0]
	out, err := b.Parse("where node1\tSome MPI 1.0\nresult latency size=8 half_rtt_us=1 best_us=1\ndone verified=3\n")
	if err != nil || out.Where != (Where{"node1", "Some MPI 1.0"}) {
		t.Fatalf("%+v, %v", out.Where, err)
	}
	other := out
	other.Where.Node = "node2"
	for want, list := range map[Where][]Output{out.Where: {out, out}, {}: {out, other, out}} {
		res := newResult(b, 2, nil)
		if res.fill(b, runs{outputs: [][]Output{list}}, nil); res.where != want {
			t.Errorf("%+v instead of %+v", res.where, want)
		}
	}
}
