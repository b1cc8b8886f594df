package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/internal/top"
	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// topCommand is the options of mpitrace top.
type topCommand struct {
	interval     time.Duration
	once         bool
	sort, filter string
}

func newTopCommand() *cobra.Command {
	o := &topCommand{}
	c := &cobra.Command{
		Use:   "top [JOB]",
		Short: "Watch a running job: MPI share, calls in progress, who is late or stuck",
		Long: `Watch the ranks of a job that runs on this node, live: their share of time in
MPI since the last refresh and overall, calls and bytes a second, the call in
progress with its place and how long it lasts, who is late and who is stuck.

JOB is the id of a job in shared memory, or its directory. Without it, it is the
only job that runs here, or one to choose from a list; mpitrace top waits for one
to start. When the job ends, mpitrace top says how and stays until q is pressed;
the key ? explains keys and columns.

If the output is no terminal, or TERM is dumb, the ranks are written as plain
text at each refresh until the job ends; then there must be a job already, and
of several that run the newest is taken. NO_COLOR is respected.`,
		Example: `  mpitrace top                          the job that runs on this node
  mpitrace top --sort late --filter 0-63 4711
  mpitrace top --once                   one table, as plain text
  mpitrace top --interval 10s > log     a table each ten seconds`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return o.run(name, os.Stdin, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().SortFlags = false
	c.Flags().DurationVar(&o.interval, "interval", 2*time.Second, "time between refreshes, at least 100ms")
	c.Flags().BoolVar(&o.once, "once", false, "write the ranks as plain text once, and exit")
	c.Flags().StringVar(&o.sort, "sort", "rank", "order of ranks: "+strings.Join(top.Columns(), ", "))
	c.Flags().StringVar(&o.filter, "filter", "", "only these `ranks`, such as 0,4-7, or those with this text in state, call or place")
	complete(c, "sort", top.Columns()...)
	return c
}

func (o *topCommand) run(name string, stdin *os.File, stdout, stderr io.Writer) error {
	switch {
	case o.interval < 100*time.Millisecond:
		return fmt.Errorf("--interval %s: at least 100ms", o.interval)
	case !slices.Contains(top.Columns(), o.sort):
		return fmt.Errorf("--sort %s: choose one of %s", o.sort, strings.Join(top.Columns(), ", "))
	}
	options := top.Options{Sort: o.sort, Filter: o.filter, Interval: o.interval, ASCII: !utf8Locale()}
	source := top.NewSegments(segment.BaseDirs())
	out, ok := stdout.(*os.File)
	interactive := ok && !o.once && isTerminal(out) && isTerminal(stdin) && os.Getenv("TERM") != "dumb"
	if name != "" || !interactive {
		path, said, err := report.Find(name, ".", segment.BaseDirs(), true)
		if err != nil {
			return err
		}
		if said != "" && name == "" {
			say(stderr, "this is "+said)
		}
		options.Job = path
	}
	if o.once {
		options.Interval = 0 // there is no next refresh
	}
	if !interactive {
		return top.Batch(source, options, columns(stdout), o.once, stdout)
	}
	options.Color = true // as far as the terminal has it
	ended, signal, err := top.Run(source, options, top.Terminal{In: stdin, Out: out, Env: os.Environ()})
	switch {
	case err != nil:
		return err
	case signal != 0:
		return exitStatus(128 + int(signal))
	case ended != "":
		say(stderr, ended)
	}
	return nil
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
