// Command fabric measures shared memory of c/fabric against the native MPIs:
// half a round trip of 8 bytes (SEND and receive; WRITE and flag), and the
// bandwidth of 1 MiB, in turn within one run, the two processes pinned to two
// processors. It prints medians of rounds, ratios, and the load of the machine.
//
// make bench-fabric
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
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
	rate          float64 // 1 MiB, MB/s
}

// contender is what can be measured; the first one or two are MPIs.
type contender struct {
	name   string
	native bool
	run    func(ctx context.Context) (figures, error)
	rounds []figures
}

func main() {
	rounds := flag.Int("rounds", 7, "`rounds`, each of which measures everything once")
	build := flag.String("build", "build", "`directory` of mpitrace-fabric")
	flag.Parse()
	if err := run(*build, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench/fabric:", err)
		os.Exit(1)
	}
}

func run(build string, rounds int) error {
	dir, err := os.MkdirTemp("", "bench-fabric")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	list, err := contenders(build, dir)
	if err != nil {
		return err
	}
	before := load()
	for n := range rounds {
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
	fmt.Printf("%d rounds in turn, processors 0 and 1; load %s before, %s after\n", rounds, before, load())
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

func contenders(build, dir string) ([]contender, error) {
	var list []contender
	for _, m := range []struct{ name, cc, run, bind string }{
		{"Open MPI", "mpicc.openmpi", "mpirun.openmpi", "--bind-to"},
		{"MPICH", "mpicc.mpich", "mpirun.mpich", "-bind-to"},
	} {
		program := filepath.Join(dir, m.cc)
		if out, err := exec.Command(m.cc, "-O2", "-w", "-o", program, "bench/fabric/programs/pingpong.c").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", m.cc, err, out)
		}
		list = append(list, contender{name: m.name, native: true, run: func(ctx context.Context) (figures, error) {
			return native(ctx, m.run, m.bind, "core", "-n", "2", program, "8", "1048576")
		}})
	}
	tool := filepath.Join(build, "mpitrace-fabric")
	for i, name := range []string{"SEND and receive", "WRITE and flag"} {
		list = append(list, contender{name: name, run: func(ctx context.Context) (figures, error) {
			return ours(ctx, tool, i)
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

// ours reads the row of one operation: the first is SEND, the second WRITE.
func ours(ctx context.Context, tool string, operation int) (figures, error) {
	var latency struct {
		Rows []struct {
			Operation string  `json:"operation"`
			Median    float64 `json:"half_round_trip_us"`
			Least     float64 `json:"least_us"`
		}
	}
	if err := row(ctx, &latency, tool, "pingpong", "--device", "shm", "--size", "8,1M", "--cpu", "0,1", "--json"); err != nil {
		return figures{}, err
	}
	if len(latency.Rows) != 4 {
		return figures{}, errors.New("pingpong gave other rows than expected")
	}
	f := figures{median: latency.Rows[operation].Median, least: latency.Rows[operation].Least}
	// SENDs have no mode of their own: a message at a time
	f.rate = (1 << 20) / latency.Rows[2+operation].Least
	if operation == 0 {
		return f, nil
	}
	var bandwidth struct {
		Rows []struct {
			Rate float64 `json:"one_way_mb_per_s"`
		}
	}
	if err := row(ctx, &bandwidth, tool, "bandwidth", "--device", "shm", "--size", "1M", "--cpu", "0,1", "--json"); err != nil {
		return figures{}, err
	}
	f.rate = bandwidth.Rows[0].Rate
	return f, nil
}

func row(ctx context.Context, result any, args ...string) error {
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
	if err != nil {
		return fmt.Errorf("%q: %w", args, err)
	}
	return json.Unmarshal(out, result)
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
	fmt.Println("1 MiB: MPI in a window of 64, WRITE in a window of 128, SEND one at a time; ours in memory of the device")
}
