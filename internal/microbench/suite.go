package microbench

import (
	"fmt"
	"slices"
	"strings"
)

// All is the name that stands for every benchmark.
const All = "all"

// Benchmark is one benchmark: a C program with the arguments that make it
// this one.
type Benchmark struct {
	Name    string
	Program string   // programs/PROGRAM.c
	Mode    []string // arguments that are always given
	What    string   // what it does, in one line
	Source  string
	Ranks   int      // how many it needs to show what it is for
	Dims    []string // keys of a result line that say what was measured
	Metrics []Metric // what is compared, in the order of the table
	Context []Metric // further values of a line, shown beside the native run
	Takes   []Setting
}

// Metric is one value of a result line.
type Metric struct {
	Key  string // in the line
	Name string // in the table
	Unit string
}

// Setting is an argument of the C programs with its defaults; an empty one is
// left out. The command line has a flag of the same name for each.
type Setting struct{ Name, Full, Quick string }

var (
	halfRTT     = Metric{"half_rtt_us", "half round trip", "us"}
	megabytes   = Metric{"mb_s", "bandwidth", "MB/s"}
	overlapPct  = Metric{"overlap_pct", "overlap", "%"}
	withoutLoad = Metric{"l0_us", "l0", "us"}
)

// common are the settings that all programs take.
func common(sizes, quickSizes, iterations, quickIterations, limit string) []Setting {
	return []Setting{
		{"sizes", sizes, quickSizes},
		{"iterations", iterations, quickIterations},
		{"warmup", "100", "8"},
		{"limit-ms", limit, "10"},
	}
}

// Suite is every benchmark, in the order in which they run.
var Suite = []*Benchmark{
	{
		Name: "latency", Program: "latency", Ranks: 2,
		What:   "ping-pong: half a round trip by message size",
		Source: "Rashti 2010, 3.3.2; Qian 2010, 3.3",
		Dims:   []string{"size"}, Metrics: []Metric{halfRTT},
		Context: []Metric{{"best_us", "fastest block", "us"}},
		Takes:   common("8,128,1024,8192,65536,1048576", "8,8192", "5000", "50", "250"),
	},
	{
		Name: "bandwidth", Program: "bandwidth", Ranks: 2,
		What:   "windows one way (uni), ping-pong (bidirectional), windows both ways (both-way)",
		Source: "Qian 2010, 3.3; Rashti 2010, 3.3.2",
		Dims:   []string{"mode", "size"}, Metrics: []Metric{megabytes},
		Context: []Metric{{"window", "window", "messages"}},
		Takes: append(common("1024,65536,1048576", "1024,65536", "100", "4", "150"),
			Setting{"window", "64", "8"}, Setting{"modes", "uni,bidirectional,both-way", "uni,bidirectional,both-way"}),
	},
	{
		Name: "reuse", Program: "reuse", Ranks: 2,
		What:   "ping-pong with 0, 50 and 100 % buffer reuse, and the ratio no reuse / full reuse",
		Source: "Rashti 2010, 3.5.2",
		Dims:   []string{"size", "reuse_pct"}, Metrics: []Metric{halfRTT, {"reuse_ratio", "no reuse / full reuse", ""}},
		Context: []Metric{{"iterations", "iterations", ""}},
		Takes:   append(common("512,16384,32768,1048576", "512,16384", "2000", "40", "250"), Setting{"pool", "67108864", "4194304"}),
	},
	{
		Name: "spectrum", Program: "spectrum", Ranks: 2,
		What:   "ping-pong with 1000 send buffers, the i-th used i times; back to back and on separate pages",
		Source: "Rashti 2010, 5.5.1",
		Dims:   []string{"alloc", "size"}, Metrics: []Metric{halfRTT},
		Context: []Metric{{"buffers", "buffers", ""}},
		Takes:   []Setting{{"sizes", "1024,8192", "1024"}, {"warmup", "100", "8"}, {"limit-ms", "2500", "10"}, {"buffers", "1000", "20"}},
	},
	{
		Name: "registration", Program: "registration", Ranks: 1,
		What:   "pinning and unpinning memory by size; mlock and munlock stand in for a network card",
		Source: "Rashti 2010, 3.5.1",
		Dims:   []string{"size"}, Metrics: []Metric{{"pin_us", "pin", "us"}, {"unpin_us", "unpin", "us"}},
		Takes: []Setting{{"sizes", "4096,65536,1048576,16777216", "4096,65536"}, {"iterations", "500", "20"}},
	},
	overlap("send"), overlap("recv"),
	progress("send"), progress("recv"),
	{
		Name: "snapshot", Program: "snapshot", Ranks: 2,
		What:   "when the data of a message moves while both ends compute between Irecv or Isend and Wait: time stamps of the receiver",
		Source: "Sur 2006, progress snapshot",
		Dims:   []string{"size", "w"}, Metrics: []Metric{{"posted_us", "Irecv", "us"}, {"first_us", "first byte", "us"},
			{"last_us", "last byte", "us"}, {"wait_us", "begin of Wait", "us"}, {"end_us", "end of Wait", "us"}},
		Context: []Metric{{"moved_pct", "moved before Wait", "%"}, withoutLoad},
		Takes: append(common("8192,1048576", "8192", "200", "16", "150"),
			Setting{"delays", "", ""}, Setting{"factors", "1,2", "1"}),
	},
	{
		Name: "exchange", Program: "exchange", Ranks: 2,
		What:   "an iterative program that exchanges with its neighbours in a ring: time in MPI, and time of an iteration, by computation",
		Source: "Rashti 2010, 4.4.1, exchange models",
		Dims:   []string{"model", "size", "w"}, Metrics: []Metric{{"wait_us", "wait", "us"}, {"turn_us", "iteration", "us"}},
		Context: []Metric{{"compute_us", "computation", "us"}, {"ratio_pct", "communication / computation", "%"}},
		Takes: append(common("131072", "8192", "400", "20", "300"),
			Setting{"models", "1,2", "1,2"}, Setting{"factors", "0.5,1,2,4", "1"}),
	},
	{
		Name: "crossing", Program: "crossing", Ranks: 2,
		What:   "one of two ranks receives while the other one sends, in turn, so that who asks first is always crossed",
		Source: "Rashti 2010, 4.4.3",
		Dims:   []string{"cross", "size"}, Metrics: []Metric{{"exchange_us", "there and back", "us"}, {"beside_pct", "of one on communicator beside", "%"}},
		Context: []Metric{{"buffer", "receive buffer", "B"}},
		Takes:   append(common("1024,131072", "1024", "2000", "20", "250"), Setting{"cross", "exact,large", "exact,large"}),
	},
	{
		Name: "paired", Program: "paired", Ranks: 2,
		What:   "short messages from one buffer, from buffers that come again half the time or never, a spectrum of both, blocking sends",
		Source: "Rashti 2010, 3.5.2, 5.5.1",
		Dims:   []string{"pattern", "size"}, Metrics: []Metric{{"message_us", "a message", "us"}, {"beside_pct", "of one on communicator beside", "%"}},
		Context: []Metric{{"buffers", "buffers", ""}},
		Takes: append(common("1024,8192", "1024", "2000", "20", "400"),
			Setting{"patterns", "same,half,fresh,spectrum,blocking", "same,half,fresh,spectrum,blocking"},
			Setting{"buffers", "300", "20"}, Setting{"pool", "67108864", "4194304"}, Setting{"window", "64", "8"}),
	},
	{
		Name: "arrival", Program: "arrival", Ranks: 16,
		What:   "random arrival before a collective, up to MIF message times late",
		Source: "Qian 2010, 6.3.2",
		Dims:   []string{"op", "size", "mif"}, Metrics: arrivalMetrics, Context: arrivalContext,
		Takes: append(common("8,8192", "8", "200", "16", "100"),
			Setting{"ops", "alltoall,allgather,allreduce", "alltoall,allgather,allreduce"},
			Setting{"mif", "1,32,128,512", "1,32"}, Setting{"seed", "1", "1"}),
	},
	{
		Name: "late", Program: "arrival", Ranks: 16,
		What:   "a share of the ranks late before a collective, at MIF 128",
		Source: "Qian 2010, 6.5",
		Dims:   []string{"op", "size", "mif", "late_pct"}, Metrics: arrivalMetrics,
		Context: append([]Metric{{"late_ranks", "late ranks", ""}}, arrivalContext...),
		Takes: append(common("8,8192", "8", "200", "16", "100"),
			Setting{"ops", "alltoall,allgather", "alltoall,allgather"},
			Setting{"mif", "128", "128"}, Setting{"late", "25,75", "25,75"}, Setting{"law", "fixed", "fixed"}, Setting{"seed", "1", "1"}),
	},
	{
		Name: "multipair", Program: "multipair", Ranks: 16,
		What:   "1, 2, 4, ... pairs at once: mean half round trip, and the sum of both-way bandwidths",
		Source: "Rashti 2010, 3.4.2",
		Dims:   []string{"size", "pairs"}, Metrics: []Metric{halfRTT, {"throughput_mb_s", "throughput", "MB/s"}},
		Context: []Metric{{"normalized_us", "half round trip / pairs", "us"}},
		Takes:   common("8,65536", "8", "2000", "20", "150"),
	},
	{
		Name: "collectives", Program: "collectives", Ranks: 16,
		What:   "Bcast and Scatter, each followed by a Barrier",
		Source: "Rashti 2010, 5.5.1",
		Dims:   []string{"op", "size"}, Metrics: []Metric{{"call_us", "call + Barrier", "us"}},
		Takes: common("128,1024,8192", "128", "5000", "20", "200"),
	},
	{
		Name: "onesided", Program: "onesided", Ranks: 2,
		What:   "one Put or Get followed by a fence",
		Source: "Rashti 2010, 5.5.1",
		Dims:   []string{"op", "size"}, Metrics: []Metric{{"access_us", "access + fence", "us"}},
		Takes: common("256,3072,8192", "256", "5000", "20", "200"),
	},
}

var (
	arrivalMetrics = []Metric{{"mean_us", "t1 - t0", "us"}, {"beyond_us", "beyond waiting", "us"}}
	arrivalContext = []Metric{
		{"imbalance_us", "arrival spread", "us"}, {"message_us", "T", "us"},
		{"clock_error_us", "clocks ±", "us"}, {"instances", "instances", ""},
	}
)

// overlap is the benchmark of one side.
func overlap(side string) *Benchmark {
	return &Benchmark{
		Name: "overlap-" + side, Program: "overlap", Mode: []string{"--mode", side}, Ranks: 2,
		What:   "computation hidden behind I" + side + " ... Wait: W/T by sweep, and Eq. 3.4",
		Source: "Sur 2006; Rashti 2010, 3.6.1",
		Dims:   []string{"size", "method", "w"}, Metrics: []Metric{overlapPct},
		Context: []Metric{{"compute_us", "computation", "us"}, {"turn_us", "T", "us"}, withoutLoad},
		Takes: append(common("8192,1048576", "8192", "400", "20", "40"),
			Setting{"delays", "", ""}, Setting{"factors", "0.5,1,2,4", "1,4"}, Setting{"methods", "sweep,eq3.4", "sweep,eq3.4"},
			Setting{"peer", "wait", "wait"}, Setting{"first", "together", "together"}, Setting{"compute", "wall", "wall"}),
	}
}

// progress is the benchmark of one side.
func progress(side string) *Benchmark {
	b := &Benchmark{
		Name: "progress-" + side, Program: "progress", Mode: []string{"--mode", side}, Ranks: 2,
		What:   "does a pending I" + side + " advance during a delay: receive latency by delay, and the residual",
		Source: "Rashti 2010, 3.6.2",
		Dims:   []string{"size", "delay"}, Metrics: []Metric{{"latency_us", "latency", "us"}, {"residual_pct", "residual", "% of l0"}},
		Context: []Metric{{"delay_us", "delay", "us"}},
		Takes: append(common("8192,262144", "8192", "200", "16", "150"),
			Setting{"delays", "", ""}, Setting{"factors", "2,5,10", "2,5"}),
	}
	if side == "recv" {
		b.Context = append(b.Context, Metric{"seen_pct", "seen in the delay", "%"})
	}
	return b
}

// Choose returns the benchmarks of the given names in the order of the suite.
func Choose(names []string) ([]*Benchmark, error) {
	var known []string
	for _, b := range Suite {
		known = append(known, b.Name)
	}
	for _, name := range names {
		if name != All && !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no benchmark %q: choose of %s, or %s", name, strings.Join(known, ", "), All)
		}
	}
	return slices.DeleteFunc(slices.Clone(Suite), func(b *Benchmark) bool {
		return !slices.Contains(names, All) && !slices.Contains(names, b.Name)
	}), nil
}

// takes says whether the programs know a setting.
func (b *Benchmark) takes(name string) bool {
	return slices.ContainsFunc(b.Takes, func(s Setting) bool { return s.Name == name })
}

// arguments are those of the program: defaults, and what the user chose.
func (b *Benchmark) arguments(quick bool, ranks int, chosen map[string]string) []string {
	args := append(slices.Clone(b.Mode), "--ranks", fmt.Sprint(ranks))
	for _, s := range b.Takes {
		value := s.Full
		if quick {
			value = s.Quick
		}
		if own, ok := chosen[s.Name]; ok {
			value = own
		}
		if value != "" {
			args = append(args, "--"+s.Name, value)
		}
	}
	return args
}
