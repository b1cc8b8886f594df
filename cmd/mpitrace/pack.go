package main

import (
	"errors"
	"fmt"

	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/spf13/cobra"
)

func newPackCommand() *cobra.Command {
	output := ""
	c := &cobra.Command{
		Use:   "pack RESULT -o FILE.mtn",
		Short: "Make one file of a result directory",
		Long: `Join all files of a result into one that mpitrace report and diff read like the
directory. The directory is left as it is; an existing file is not replaced.
Trace files (*.mtt, of --trace) are large and stay behind.`,
		Example: "  mpitrace pack mpitrace-4711 -o baseline.mtn",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if output == "" {
				return errors.New("say with -o which file to write")
			}
			n, problems, err := report.Pack(args[0], output, "mpitrace "+programVersion())
			if err != nil {
				return err
			}
			for _, problem := range problems {
				fmt.Fprintf(c.ErrOrStderr(), "mpitrace: left out: %s\n", problem)
			}
			if traces, err := segment.TraceFiles(args[0]); err == nil && len(traces) > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "mpitrace: left out: %s (*%s): who waited for whom in messages can only be told from %s\n",
					plural(len(traces), "trace file"), segment.TraceFileSuffix, shortPath(args[0]))
			}
			fmt.Fprintf(c.ErrOrStderr(), "mpitrace: %d processes are in %s\n", n, output)
			return nil
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "file to write")
	return c
}
