package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/mpitrace/mpitrace/internal/launch/harvest"
	"github.com/spf13/cobra"
)

func newCleanCommand() *cobra.Command {
	var what harvest.Cleaning
	var base string
	c := &cobra.Command{
		Use:   "clean [--job ID] [--all-jobs] [--dry-run]",
		Short: "Remove what dead processes left in the shared memory of this machine",
		Long: `Remove the segments of dead processes on this machine; what they hold is lost
(mpitrace collect saves it). Jobs that still have living processes here are left
alone unless --all-jobs is given, and then only their dead are removed. A process
is dead when its pid does not exist, or has another start time, or belongs to an
earlier boot. root cleans up after all users, acting as each of them.`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkJob(what.Job); err != nil {
				return err
			}
			what.Bases = baseDirs(base)
			cleaned, err := harvest.Clean(what)
			fmt.Fprintln(c.ErrOrStderr(), "mpitrace: "+cleanedLine(cleaned, what.DryRun))
			if base == "" && os.Geteuid() == 0 {
				err = errors.Join(err, cleanOthers(c.ErrOrStderr(), what))
			}
			if err != nil {
				return failed(c.ErrOrStderr(), "clean", err)
			}
			return nil
		},
	}
	c.Flags().StringVar(&what.Job, "job", "", "only this job")
	c.Flags().BoolVar(&what.AllJobs, "all-jobs", false, "also the dead of jobs that have living processes")
	c.Flags().BoolVar(&what.DryRun, "dry-run", false, "count, but remove nothing")
	c.Flags().StringVar(&base, "segment-dir", "", "where the segments live (default as for run)")
	return c
}

// cleanedLine is the summary line.
func cleanedLine(c harvest.Cleaned, dry bool) string {
	verb := "removed"
	if dry {
		verb = "would remove"
	}
	line := fmt.Sprintf("%s %s of dead processes (%d KiB)", verb, plural(c.Segments, "segment"), c.Bytes>>10)
	if c.Kept > 0 {
		line += fmt.Sprintf(", left %s of jobs that run", plural(c.Kept, "segment"))
	}
	return line
}

// cleanOthers cleans up after other users, with their rights: a directory
// that belongs to somebody else may be changed under our feet.
func cleanOthers(stderr io.Writer, what harvest.Cleaning) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("the path of mpitrace: %w", err)
	}
	dirs, _ := filepath.Glob("/dev/shm/mpitrace-*")
	temporary, _ := filepath.Glob(filepath.Join(os.TempDir(), "mpitrace-[0-9]*"))
	var problems []error
	for _, dir := range append(dirs, temporary...) {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		owner := info.Sys().(*syscall.Stat_t)
		if owner.Uid == 0 {
			continue
		}
		cmd := exec.Command(self, cleanArguments(dir, what)...)
		cmd.Stderr = stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
		if err := cmd.Run(); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", dir, err))
		}
	}
	return errors.Join(problems...)
}

func cleanArguments(dir string, what harvest.Cleaning) []string {
	args := []string{"clean", "--segment-dir", dir, "--job", what.Job}
	if what.AllJobs {
		args = append(args, "--all-jobs")
	}
	if what.DryRun {
		args = append(args, "--dry-run")
	}
	return args
}
