package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/mpitrace/mpitrace/internal/launch"
	"github.com/mpitrace/mpitrace/internal/microbench"
	"github.com/mpitrace/mpitrace/report"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// benchOptions are the options of mpitrace bench.
type benchOptions struct {
	microbench.Options
	settings           map[string]*string // by name
	asJSON, nativeOnly bool
	stderr             io.Writer
}

func newBenchCommand() *cobra.Command {
	o := &benchOptions{settings: map[string]*string{}}
	c := &cobra.Command{
		Use:   "bench [options] NAME... | all",
		Short: "Run the papers' micro-benchmarks, native and preloaded in turn",
		Long: `Build small MPI programs with your MPI compiler, run each natively, with the
measuring library preloaded, and with --act in act mode, one after the other in
one session, and print the medians beside what was published. Published figures come from other hardware:
they are a reference, not a target.

` + benchList() + `
docs/bench.md says what each one measures. The status is 1 if a program found
wrong data or could not be run.`,
		Example: `  mpitrace bench --quick all
  mpitrace bench latency reuse --reps 9
  mpitrace bench arrival --mpirun 'mpirun.openmpi --bind-to core' --ranks 16 --mif 1,512
  mpitrace bench overlap-send --act rndv=read --act rndv=write --native
  mpitrace bench all --json > bench.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("which benchmark? mpitrace bench all, or a name of mpitrace bench --help")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.Names, o.stderr = args, c.ErrOrStderr()
			if err := o.readSettings(c); err != nil {
				return err
			}
			return o.run(c.OutOrStdout())
		},
		DisableFlagsInUseLine: true,
		ValidArgs:             append(benchNames(), microbench.All),
	}
	o.addFlags(c)
	return c
}

func benchNames() []string {
	var names []string
	for _, b := range microbench.Suite {
		names = append(names, b.Name)
	}
	return names
}

// benchList names all benchmarks for the help.
func benchList() string {
	text := ""
	for _, b := range microbench.Suite {
		text += fmt.Sprintf("  %-14s %s\n", b.Name, b.What)
	}
	return text
}

func (o *benchOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.MPIRun, "mpirun", "", "`launcher` and its options in one word, without -n (default: the first of mpirun, mpiexec, mpirun.openmpi, mpirun.mpich and srun on PATH)")
	f.StringVar(&o.CC, "cc", "", "MPI `compiler` (default: mpicc of the launcher's family)")
	f.IntVarP(&o.Ranks, "ranks", "n", 0, "ranks (default: as many as a benchmark needs, at most the cores, at least 2)")
	f.IntVar(&o.Reps, "reps", 0, "runs of each variant (default 5, with --quick 1)")
	f.BoolVar(&o.Quick, "quick", false, "smoke run: a few iterations of small sizes")
	f.BoolVar(&o.nativeOnly, "native", false, "no preloaded runs: native ones, and those of --act")
	f.StringArrayVar(&o.Act, "act", nil, "run in act mode too, with this `policy`; may be given several times (docs/act.md)")
	f.BoolVar(&o.asJSON, "json", false, "write JSON")
	f.StringVar(&o.Shim, "shim", "", "path of "+launch.ShimName+" (default as for run)")
	f.StringVar(&o.Cache, "cache", "", "`directory` for the compiled programs, visible on all nodes (default: in the user's cache directory)")
	f.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "most time for one job")
	for _, flag := range microbench.Flags {
		o.settings[flag.Name] = f.String(flag.Name, "", flag.Doc)
	}
}

// readSettings takes the settings that were given on the command line.
func (o *benchOptions) readSettings(c *cobra.Command) error {
	o.Settings = map[string]string{}
	for _, flag := range microbench.Flags {
		if !c.Flags().Changed(flag.Name) {
			continue
		}
		text, err := flag.Normal(*o.settings[flag.Name])
		if err != nil {
			return err
		}
		o.Settings[flag.Name] = text
	}
	return nil
}

func (o *benchOptions) run(stdout io.Writer) error {
	if err := o.findShim(); err != nil {
		return err
	}
	o.Version = programVersion()
	o.Warn = func(text string) { fmt.Fprintf(o.stderr, "mpitrace: %s\n", text) }
	if _, err := unix.IoctlGetTermios(unix.Stderr, unix.TCGETS); err == nil {
		o.Progress = func(text string) { fmt.Fprintf(o.stderr, "\r\033[K%s", text) }
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	measured, err := microbench.Run(ctx, o.Options)
	if o.Progress != nil {
		o.Progress("")
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case err != nil:
		return err
	}
	write := measured.WriteText
	if o.asJSON {
		write = measured.WriteJSON
	}
	if err := write(stdout); err != nil {
		return err
	}
	o.calibrate(measured)
	if measured.Failed() {
		return exitStatus(statusFailed)
	}
	return nil
}

// calibrate stores the time of a message for reports on jobs of this node.
func (o *benchOptions) calibrate(r *microbench.Report) {
	c, ok := r.Calibration()
	if !ok {
		return
	}
	dir, err := report.CalibrationDir()
	if err == nil {
		n := report.Network{StartupNS: c.StartupNS, NSPerByte: c.NSPerByte, Node: c.Node, MPI: c.MPI, Time: r.Time.Format(time.RFC3339)}
		err = n.Store(dir)
	}
	if err != nil {
		o.Warn("the time of a message is not stored for reports: " + err.Error())
	}
}

// findShim finds the library to preload, and what starts act mode.
func (o *benchOptions) findShim() error {
	if o.nativeOnly && len(o.Act) == 0 {
		o.Shim = ""
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("the path of mpitrace: %w", err)
	}
	if o.Shim, err = launch.FindShim(o.Shim, self); err != nil {
		return fmt.Errorf("%w; or measure without it: --native", err)
	}
	o.ActRun = []string{self, "run", "--shim", o.Shim}
	if o.nativeOnly {
		o.Shim = ""
	}
	return nil
}
