package microbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Options say what to measure, with what, and how often.
type Options struct {
	Names    []string          // benchmarks, or All
	MPIRun   string            // words of the launcher; empty: the first on PATH
	CC       string            // MPI compiler wrapper; empty: that of the launcher
	Cache    string            // where compiled programs are kept; empty: DefaultCache
	Shim     string            // library to preload in turn; empty: no preloaded runs
	Act      []string          // policies of act mode, each in turn too
	ActRun   []string          // mpitrace run and its options, for these
	Ranks    int               // 0: as many as a benchmark needs, at most the cores, at least 2
	Reps     int               // runs of each variant; 0: 5, with Quick 1
	Quick    bool              // a smoke run
	Settings map[string]string // by the name of the Flag, in its normal form
	Timeout  time.Duration     // of one job; 0: 5 minutes
	Version  string            // of mpitrace, for the report

	Progress func(string) // told what is under way; nil: nobody
	Warn     func(string) // told what makes figures doubtful; nil: nobody
}

const (
	usualReps    = 5
	usualTimeout = 5 * time.Minute
)

// withDefaults fills in what was left empty.
func (o Options) withDefaults() (Options, error) {
	if o.Reps == 0 {
		o.Reps = usualReps
		if o.Quick {
			o.Reps = 1
		}
	}
	if o.Reps < 1 || o.Ranks < 0 || o.Ranks == 1 {
		return o, fmt.Errorf("%d repetitions on %d ranks: at least 1 and 2, please", o.Reps, o.Ranks)
	}
	if len(o.Act) > 0 && len(o.ActRun) == 0 {
		return o, errors.New("act mode: no command that starts it")
	}
	if o.Timeout == 0 {
		o.Timeout = usualTimeout
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	var err error
	if o.Cache == "" {
		if o.Cache, err = DefaultCache(); err != nil {
			return o, err
		}
	}
	o.Cache, err = filepath.Abs(o.Cache)
	return o, err
}

// ranks is how many a benchmark runs on.
func (o Options) ranks(b *Benchmark) int {
	if o.Ranks > 0 {
		return o.Ranks
	}
	return max(2, min(b.Ranks, cores()))
}

// Run builds and runs the chosen benchmarks. A benchmark that fails says so
// in its Result and does not stop the others; the error is about all of them.
func Run(ctx context.Context, o Options) (*Report, error) {
	chosen, err := Choose(o.Names)
	if err != nil {
		return nil, err
	}
	if err := checkTaken(o.Settings, chosen); err != nil {
		return nil, err
	}
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	r, err := newRunner(ctx, o)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(r.scratch)
	report := r.header()
	for _, b := range chosen {
		result := r.benchmark(ctx, b)
		report.Benchmarks = append(report.Benchmarks, result)
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
	}
	report.LoadEnd = load()
	return report, nil
}

// runner holds what the benchmarks of one Run share.
type runner struct {
	o        Options
	launcher launcher
	builder  *builder
	scratch  string // results of preloaded runs; visible on all nodes
	warned   map[string]bool
}

func newRunner(ctx context.Context, o Options) (*runner, error) {
	l, err := findLauncher(o.MPIRun)
	if err != nil {
		return nil, err
	}
	compiler, err := l.compiler(o.CC)
	if err != nil {
		return nil, err
	}
	b, err := newBuilder(ctx, compiler, o.Cache)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp(o.Cache, "run-")
	if err != nil {
		return nil, fmt.Errorf("results of the runs: %w", err)
	}
	return &runner{o: o, launcher: l, builder: b, scratch: scratch, warned: map[string]bool{}}, nil
}

// header is the report without results.
func (r *runner) header() *Report {
	host, _ := os.Hostname()
	return &Report{
		Schema: 1, Version: r.o.Version, Time: time.Now().UTC().Truncate(time.Second), Host: host,
		Processor: processor(), Cores: cores(), LoadBegin: load(),
		Launcher: r.launcher.words, Compiler: r.builder.compiler, Shim: r.o.Shim,
		Act: r.o.Act, Reps: r.o.Reps, Quick: r.o.Quick, Benchmarks: []*Result{},
	}
}

// benchmark runs one benchmark in all repetitions.
func (r *runner) benchmark(ctx context.Context, b *Benchmark) *Result {
	ranks := r.o.ranks(b)
	result := newResult(b, ranks, b.arguments(r.o.Quick, ranks, r.o.Settings))
	if text := r.launcher.crowded(ranks); text != "" {
		result.Warnings = append(result.Warnings, text)
		r.warn(text)
	}
	runs, err := r.repeat(ctx, b, result)
	if err != nil {
		result.Error = err.Error()
		r.o.Warn(b.Name + ": " + err.Error())
		return result
	}
	result.fill(b, runs, r.o.Act)
	return result
}

// warn says something once.
func (r *runner) warn(text string) {
	if !r.warned[text] {
		r.warned[text] = true
		r.o.Warn(text)
	}
}

// repeat runs all variants in turn, in an order that changes from
// repetition to repetition.
func (r *runner) repeat(ctx context.Context, b *Benchmark, result *Result) (runs, error) {
	var all runs
	program, err := r.builder.build(ctx, b.Program)
	if err != nil {
		return all, err
	}
	command := r.launcher.command(result.Ranks, program, result.Arguments)
	variants := r.variants()
	for rep := range r.o.Reps {
		for i := range variants {
			v := variants[(i+rep)%len(variants)]
			r.o.Progress(fmt.Sprintf("%s: %s, repetition %d of %d", b.Name, r.nameOf(v), rep+1, r.o.Reps))
			out, err := r.once(ctx, b, v, command)
			if err != nil {
				return all, fmt.Errorf("%s run: %w", r.nameOf(v), err)
			}
			all.add(v, out)
		}
	}
	return all, nil
}

// variant is one way to run a program.
type variant int

const (
	native variant = iota
	preloaded
	acting // with the first policy; the others follow
)

// variants are those that are asked for.
func (r *runner) variants() []variant {
	list := []variant{native}
	if r.o.Shim != "" {
		list = append(list, preloaded)
	}
	for i := range r.o.Act {
		list = append(list, acting+variant(i))
	}
	return list
}

func (r *runner) nameOf(v variant) string {
	if v >= acting {
		return "act=" + r.o.Act[v-acting]
	}
	return [...]string{"native", "preloaded"}[v]
}

// once runs one job.
func (r *runner) once(ctx context.Context, b *Benchmark, v variant, command []string) (Output, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.o.Timeout, errTimeout)
	defer cancel()
	var text string
	var err error
	switch v {
	case native:
		text, err = r.native(ctx, command)
	case preloaded:
		text, err = r.preloaded(ctx, command)
	default:
		text, err = r.acting(ctx, command, r.o.Act[v-acting])
	}
	out, wrong := b.Parse(text)
	switch {
	case errors.Is(err, errTimeout) && wrong == nil:
		out.Notes = append(out.Notes, "a run was measured to its end, and did not end: its MPI_Finalize hung")
		return out, nil
	case err != nil:
		return Output{}, err
	}
	return out, wrong
}

var errTimeout = errors.New("the job took longer than --timeout, or did not end once it was measured, and was ended")
