package main

import (
	"os"

	"github.com/mpitrace/mpitrace/internal/launch"
	"github.com/spf13/cobra"
)

// newNoteNodesCommand is what srun runs as its prolog. It prints nothing and
// never fails: that would reach the user's output, or end the job.
func newNoteNodesCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "note-nodes",
		Short:  "Note the nodes of a Slurm job in the result directory",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			if dir := os.Getenv("MPITRACE_OUTPUT"); dir != "" {
				_ = launch.NoteNodes(dir, os.Environ())
			}
			return nil
		},
	}
}
