package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the man pages of all commands into DIR",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("man pages: %w", err)
			}
			root := c.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Title: "MPITRACE", Section: "1", Source: "mpitrace " + programVersion()}
			return doc.GenManTree(root, header, args[0])
		},
	}
}
