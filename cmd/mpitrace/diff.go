package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/mpitrace/mpitrace/report"
	"github.com/spf13/cobra"
)

// diffOptions are the options of mpitrace diff.
type diffOptions struct {
	metric, color string
	failAbove     float64
	limited       bool // --fail-above was given
	top           int
}

func newDiffCommand() *cobra.Command {
	o := &diffOptions{}
	c := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Compare two results; pass or fail for CI jobs",
		Long: `Compare two results: wall time, time in MPI, calls and bytes, then the functions
and places that changed most.

With --fail-above P the status is 1 if the metric grew by more than P percent,
else 0; 2 says that something could not be read.`,
		Example: `  mpitrace diff before after
  mpitrace diff --fail-above 5 --metric mpi baseline.mtn mpitrace-4711`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			o.limited = c.Flags().Changed("fail-above")
			return o.run(args[0], args[1], c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().SortFlags = false
	c.Flags().Float64Var(&o.failAbove, "fail-above", 0, "fail if the metric grows by more than this many percent")
	c.Flags().StringVar(&o.metric, "metric", report.Metrics()[0], "what the threshold is for: "+strings.Join(report.Metrics(), ", "))
	c.Flags().IntVar(&o.top, "top", 0, "rows of each table; -1: all")
	c.Flags().StringVar(&o.color, "color", "auto", "auto, always or never")
	complete(c, "metric", report.Metrics()...)
	complete(c, "color", "auto", "always", "never")
	return c
}

func (o *diffOptions) run(before, after string, stdout, stderr io.Writer) error {
	if !slices.Contains(report.Metrics(), o.metric) {
		return fmt.Errorf("--metric %s: choose one of %s", o.metric, strings.Join(report.Metrics(), ", "))
	}
	if math.IsNaN(o.failAbove) || o.failAbove < 0 {
		return fmt.Errorf("--fail-above %v: give a percentage of 0 or more", o.failAbove)
	}
	color, err := wantColor(o.color, stdout)
	if err != nil {
		return err
	}
	d := &report.Diff{Names: [2]string{before, after}}
	for i, side := range []**report.Report{&d.Before, &d.After} {
		if *side, err = report.Load(d.Names[i], report.Options{}); err != nil {
			return err
		}
		say(stderr, (*side).Problems...)
	}
	if err := d.WriteText(stdout, report.View{Color: color, ASCII: !utf8Locale(), Top: o.top, Width: columns(stdout)}); err != nil {
		return err
	}
	if !o.limited {
		return nil
	}
	return o.judge(d, stderr)
}

// judge compares the change of the metric with the threshold.
func (o *diffOptions) judge(d *report.Diff, stderr io.Writer) error {
	m, err := d.Metric(o.metric)
	if err != nil {
		return err
	}
	change := m.Change() * 100
	if change > o.failAbove {
		fmt.Fprintf(stderr, "mpitrace: FAIL: %s grew by %.2f %%, allowed are %g %%\n", o.metric, change, o.failAbove)
		return exitStatus(statusFailed)
	}
	fmt.Fprintf(stderr, "mpitrace: pass: %s changed by %.2f %%, allowed are %g %%\n", o.metric, change, o.failAbove)
	return nil
}
