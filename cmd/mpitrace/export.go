package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"

	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/report/timeline/export"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func newExportCommand() *cobra.Command {
	o := export.Options{}
	c := &cobra.Command{
		Use:   "export --format perfetto|csv|parquet|otf2 [RESULT]",
		Short: "Write the timeline of a result for other programs",
		Long: `Write what a run with --trace recorded for the viewers and tools of others: each
call, message and request of each rank, on one time axis. Clocks are aligned and
messages matched as for mpitrace report, and what the trace lacks is named: gaps,
events that were not kept, ranks without data. Of a result without a trace there
are the sampled collective operations and the tables of the report.

  perfetto  one file, for ui.perfetto.dev and trace_processor
  csv       a directory with one file for each table, units in the column names
  parquet   the same tables, for pandas, DuckDB, Spark and the like
  otf2      a directory, for Vampir, Score-P's tools and otf2-print (with a trace)

RESULT is as for mpitrace report. A trace may be larger than memory; it is then
sorted in temporary files of up to three times its size (--tmp). docs/export.md
describes each format.`,
		Example: `  mpitrace run --trace -- mpirun -n 4 ./app
  mpitrace export --format perfetto                 the newest result here
  mpitrace export --format csv mpitrace-4711 -o tables
  mpitrace export --format otf2 mpitrace-4711 && otf2-print mpitrace-4711.otf2/*.otf2`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, unix.SIGTERM)
			defer stop()
			return runExport(ctx, name, o, c.ErrOrStderr())
		},
	}
	c.Flags().SortFlags = false
	c.Flags().StringVar(&o.Format, "format", "", "perfetto, csv, parquet or otf2")
	c.Flags().StringVarP(&o.Output, "output", "o", "", "`file` or directory to write; default: the name of the result with an ending, here")
	c.Flags().BoolVar(&o.Force, "force", false, "replace an output that exists")
	c.Flags().StringVar(&o.Tmp, "tmp", "", "`directory` of temporary files; default $TMPDIR")
	complete(c, "format", export.Formats()...)
	return c
}

func runExport(ctx context.Context, name string, o export.Options, stderr io.Writer) error {
	if err := o.Check(); err != nil {
		return err
	}
	path, said, err := report.Find(name, ".", segment.BaseDirs(), false)
	if err != nil {
		return err
	}
	if said != "" {
		say(stderr, "this is "+said)
	}
	o.Version = programVersion()
	if o.Executable, err = os.Executable(); err != nil {
		return fmt.Errorf("where is this program: %w", err)
	}
	done, err := export.Run(ctx, path, o)
	var exists *fs.PathError
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted: nothing was written")
	case errors.As(err, &exists) && errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s exists already: remove it, choose another name with -o, or replace it with --force", exists.Path)
	case err != nil:
		return err
	}
	say(stderr, done.Lines()...)
	return nil
}
