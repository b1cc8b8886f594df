package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/internal/knobs"
	"github.com/mpitrace/mpitrace/internal/launch/harvest"
	"github.com/spf13/cobra"
)

// collectOptions are the options of mpitrace collect.
type collectOptions struct {
	job, output, base string
	all, idle, quiet  bool
	keep              knobs.Value
	wait              time.Duration
}

func newCollectCommand() *cobra.Command {
	o := &collectOptions{keep: knobs.Value{Knob: knobOf("keep_segments")}}
	c := &cobra.Command{
		Use:   "collect [--job ID] [-o DIR]",
		Short: "Save what killed processes left in the shared memory of this machine",
		Long: `Move the segments of dead processes on this machine into node files of a result
directory. mpitrace run does this at its end; use collect in an epilog, or when
run itself was killed. It may run at any time and more than once. Living
processes are left alone.

The job is --job, else MPITRACE_JOB_ID, else every job found. The result
directory is -o, else MPITRACE_OUTPUT, else mpitrace-JOB in the working
directory; when all jobs are collected, -o is where their mpitrace-JOB go.`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.NoArgs,
		RunE:                  func(c *cobra.Command, _ []string) error { return o.run(c) },
	}
	c.Flags().StringVar(&o.job, "job", os.Getenv("MPITRACE_JOB_ID"), "only this job")
	c.Flags().StringVarP(&o.output, "output", "o", os.Getenv("MPITRACE_OUTPUT"), "result directory")
	c.Flags().StringVar(&o.base, "segment-dir", "", "where the segments live (default as for run)")
	c.Flags().BoolVar(&o.all, "all", false, "also a snapshot of living processes, which keep their segments")
	c.Flags().BoolVar(&o.idle, "idle", false, "only jobs that have no living process on this machine")
	c.Flags().VarPF(&o.keep, o.keep.Knob.Flag, "", "leave the segments in shared memory (default as for run)").NoOptDefVal = "1"
	c.Flags().DurationVar(&o.wait, "wait", 0, "how long to wait for living processes to end")
	c.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "no summary line")
	for _, name := range []string{"job", "output"} {
		c.Flags().Lookup(name).DefValue = ""
	}
	return c
}

func (o *collectOptions) run(c *cobra.Command) error {
	if err := checkJob(o.job); err != nil {
		return err
	}
	if !c.Flags().Changed(o.keep.Knob.Flag) {
		text, err := fromEnvironment(o.keep.Knob)
		if err != nil {
			return err
		}
		if text != "" {
			_ = o.keep.Set(text)
		}
	}
	s, err := harvest.Collect(c.Context(), harvest.Options{
		Bases: baseDirs(o.base), Job: o.job, Output: o.directory, All: o.all, Idle: o.idle, Wait: o.wait,
		Keep: o.keep.String() == "1", Writer: "mpitrace collect " + programVersion(),
	})
	if !o.quiet {
		fmt.Fprintln(c.ErrOrStderr(), "mpitrace: "+collected(s))
	}
	if err != nil {
		return failed(c.ErrOrStderr(), "collect", err)
	}
	return nil
}

// directory is the result directory of a job.
func (o *collectOptions) directory(job string) string {
	switch {
	case o.output != "" && o.job != "":
		return o.output
	default:
		return filepath.Join(o.output, "mpitrace-"+job)
	}
}

// collected is the summary line.
func collected(s harvest.Summary) string {
	line := "no dead process left anything"
	if s.Processes > 0 {
		dirs := slices.Compact(slices.Sorted(slices.Values(s.Dirs)))
		for i := range dirs {
			dirs[i] = shortPath(dirs[i])
		}
		line = fmt.Sprintf("collected %s into %s", plural(s.Processes, "process"), strings.Join(dirs, ", "))
	}
	if s.Alive > 0 {
		line += fmt.Sprintf("; %s alive", plural(s.Alive, "process"))
	}
	if s.Damaged > 0 {
		line += fmt.Sprintf("; %s cannot be read", plural(s.Damaged, "segment"))
	}
	return line
}

// jobName is what a job id may look like: it is the name of a directory.
var jobName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

func checkJob(job string) error {
	if job != "" && !jobName.MatchString(job) {
		return fmt.Errorf("--job %q is not a job id: letters, digits, dot, dash and underscore", job)
	}
	return nil
}

// baseDirs is the base directory given, nil for those of this user.
func baseDirs(given string) []string {
	if given == "" {
		return nil
	}
	return []string{given}
}
