package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/internal/stats"
)

// figures of one round of one contender.
type figures struct {
	median, least float64 // of batches: half round trip of 8 bytes, us
	rate          float64 // 1 MiB, MB/s of the best batch
}

// contender is what can be measured; the first one or two are MPIs.
type contender struct {
	name   string
	native bool
	run    func(ctx context.Context) (figures, error)
	rounds []figures
}

// againstMPI measures shared memory against the native MPIs: half a round trip of
// 8 bytes and the bandwidth of 1 MiB, in turn within one run, the two processes
// pinned to two processors.
func againstMPI(b *bench) error {
	list, err := contenders(b)
	if err != nil {
		return err
	}
	before := load()
	for n := range b.rounds {
		for i := range list {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			f, err := list[i].run(ctx)
			cancel()
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", n+1, list[i].name, err)
			}
			list[i].rounds = append(list[i].rounds, f)
		}
	}
	fmt.Printf("%d rounds in turn, processors 0 and 1; load %s before, %s after\n", b.rounds, before, load())
	printTable(list)
	return nil
}

// load is what /proc/loadavg says, in its first three numbers.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

// ways are ours: an operation with a kind of buffer.
var ways = []struct {
	name, operation, buffers string
	row                      int // of pingpong
}{
	{"SEND", "send", "device", 0},
	{"SEND, registered", "send", "registered", 0},
	{"WRITE", "write", "device", 1},
	{"WRITE, registered", "write", "registered", 1},
}

func contenders(b *bench) ([]contender, error) {
	var list []contender
	divisor := "1"
	if b.quick {
		divisor = "1000"
	}
	for _, m := range []struct{ name, cc, run, bind string }{
		{"Open MPI", "mpicc.openmpi", "mpirun.openmpi", "--bind-to"},
		{"MPICH", "mpicc.mpich", "mpirun.mpich", "-bind-to"},
	} {
		program := filepath.Join(b.scratch, m.cc)
		if out, err := exec.Command(m.cc, "-O2", "-w", "-o", program, "bench/fabric/programs/pingpong.c").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", m.cc, err, out)
		}
		list = append(list, contender{name: m.name, native: true, run: func(ctx context.Context) (figures, error) {
			return native(ctx, m.run, m.bind, "core", "-n", "2", program, divisor, "8", "1048576")
		}})
	}
	for _, w := range ways {
		list = append(list, contender{name: w.name, run: func(ctx context.Context) (figures, error) {
			return b.ours(ctx, w.operation, w.buffers, w.row)
		}})
	}
	return list, nil
}

func native(ctx context.Context, args ...string) (figures, error) {
	var f figures
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	out, err := cmd.Output()
	if err != nil {
		return f, fmt.Errorf("%q: %w", args, err)
	}
	var bytes int
	var skip float64
	_, err = fmt.Sscan(string(out), &bytes, &f.median, &f.least, &skip, &bytes, &skip, &skip, &f.rate)
	return f, err
}

// ours is a round of one of ways.
func (b *bench) ours(ctx context.Context, operation, buffers string, row int) (figures, error) {
	common := []string{"--device", "shm", "--buffers", buffers, "--cpu", "0,1", "--json"}
	if b.quick {
		common = append(common, "--iterations", "20")
	}
	latency, err := rowsOf(ctx, slices.Concat([]string{b.tool, "pingpong", "--size", "8"}, common)...)
	if err != nil {
		return figures{}, err
	}
	bandwidth, err := rowsOf(ctx, slices.Concat([]string{b.tool, "bandwidth", "--size", "1M", "--operation", operation}, common)...)
	if err != nil {
		return figures{}, err
	}
	if len(latency) != 2 || len(bandwidth) != 1 {
		return figures{}, errors.New("other rows than expected")
	}
	return figures{
		median: latency[row].number("half_round_trip_us"), least: latency[row].number("least_us"),
		rate: bandwidth[0].number("best_one_way_mb_per_s"),
	}, nil
}

// medianOf is the median of one figure over the rounds.
func medianOf(rounds []figures, figure func(figures) float64) float64 {
	values := make([]float64, len(rounds))
	for i, f := range rounds {
		values[i] = figure(f)
	}
	return stats.Median(values)
}

// ratios are the rounds of one contender against the better MPI of the same
// round: the machine is not the same from round to round.
func ratios(rounds []figures, natives []contender) []figures {
	out := slices.Clone(rounds)
	for i := range out {
		best := natives[0].rounds[i]
		for _, n := range natives[1:] {
			f := n.rounds[i]
			best = figures{min(best.median, f.median), min(best.least, f.least), max(best.rate, f.rate)}
		}
		out[i].median /= best.median
		out[i].least /= best.least
		out[i].rate /= best.rate
	}
	return out
}

// printTable shows medians over the rounds, of figures and of ratios.
func printTable(list []contender) {
	var natives []contender
	for _, c := range list {
		if c.native {
			natives = append(natives, c)
		}
	}
	median := func(f figures) float64 { return f.median }
	least := func(f figures) float64 { return f.least }
	rate := func(f figures) float64 { return f.rate }
	fmt.Printf("  %-18s %12s %8s %12s %8s %12s %8s\n", "", "8 B median", "ratio", "8 B least", "ratio", "1 MiB", "ratio")
	for _, c := range list {
		r := ratios(c.rounds, natives)
		fmt.Printf("  %-18s %9.4f us %8.2f %9.4f us %8.2f %7.0f MB/s %8.2f\n", c.name,
			medianOf(c.rounds, median), medianOf(r, median), medianOf(c.rounds, least), medianOf(r, least),
			medianOf(c.rounds, rate), medianOf(r, rate))
	}
	fmt.Println("ratios: to the better MPI of the same round; goal: 8 bytes at most 0.90, 1 MiB at least 0.90")
	fmt.Println("1 MiB: MPI and SEND in a window of 64, WRITE of 128; registered: memory of the process, as MPI's is, else memory of the device")
}
