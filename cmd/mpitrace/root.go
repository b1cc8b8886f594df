package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"

	"github.com/mpitrace/mpitrace/internal/version"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/spf13/cobra"
)

// programVersion is the version of this executable.
func programVersion() string { return version.Number }

// Exit statuses of mpitrace itself (docs/exit-status.md).
const (
	statusFailed = 1 // done or begun, and something failed that was asked for
	statusUsage  = 2 // nothing was done: a wrong command line, or input that cannot be read
)

// exitStatus ends the program with a status and no further message.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// execute runs one command line and returns the exit status.
func execute(args []string, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	c, err := root.ExecuteC()
	var status exitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	}
	say(stderr, strings.Split(plain(c, err), "\n")...)
	if failedWrite(err) {
		return statusFailed
	}
	return statusUsage
}

var (
	manyFlags = regexp.MustCompile(`^if any flags in the group .*; \[(.+)\] were all set$`)
	badNumber = regexp.MustCompile(`strconv\.Parse[A-Za-z]+: parsing ".*": (invalid syntax|value out of range)`)
)

// plain is the text of an error, where it is one of the library's in words for people.
func plain(c *cobra.Command, err error) string {
	text := badNumber.ReplaceAllString(err.Error(), "not a number in its range")
	if flags := manyFlags.FindStringSubmatch(text); flags != nil {
		return "choose one of --" + strings.ReplaceAll(flags[1], " ", ", --")
	}
	if strings.Contains(text, "arg(s), ") {
		return fmt.Sprintf("%s (usage: %s)", text, c.UseLine())
	}
	before, after, found := strings.Cut(text, "\n\nDid you mean this?\n")
	if found {
		return before + ": did you mean " + strings.Join(strings.Fields(after), ", ") + "?"
	}
	return text
}

// failedWrite tells that output could not be written: then a command has begun.
func failedWrite(err error) bool {
	var failed *fs.PathError
	return errors.As(err, &failed) && failed.Op == "write"
}

// failed says why a command that has done some of its work did not do all of it.
func failed(stderr io.Writer, command string, err error) error {
	fmt.Fprintf(stderr, "mpitrace: %s: %s\n", command, oneLine(err))
	return exitStatus(statusFailed)
}

// oneLine is the text of an error, which may be of several.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// say writes lines on stderr. What stands in them may come from files of
// others, so that nothing in them may steer a terminal.
func say(stderr io.Writer, lines ...string) {
	for _, line := range lines {
		fmt.Fprintf(stderr, "mpitrace: %s\n", segment.CleanText(line))
	}
}

// newRootCommand is the whole command tree; man pages and completions are
// made from it.
func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "mpitrace",
		Short: "Profile MPI programs without rebuilding them",
		Long: `mpitrace shows where the MPI time of a program goes. It preloads one library
into the ranks, which counts and times every MPI call at a cost of some tens of
nanoseconds, and reads what they leave behind, also of ranks that were killed.`,
		Example: `  mpitrace run -- mpirun -n 4 ./app       run under measurement
  mpitrace report mpitrace-20260101-...   see where the time went
  mpitrace doctor                         see what works on this machine`,
		Version:       programVersion(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w (see %s --help)", err, c.CommandPath())
	})
	root.AddCommand(subcommands()...)
	return root
}

// subcommands are all commands, in the order in which a user meets them.
func subcommands() []*cobra.Command {
	return []*cobra.Command{
		newRunCommand(),
		newReportCommand(),
		newTopCommand(),
		newDiffCommand(),
		newAdviseCommand(),
		newExportCommand(),
		newPackCommand(),
		newCollectCommand(),
		newCleanCommand(),
		newAgentCommand(),
		newDoctorCommand(),
		newBenchCommand(),
		newFabricCommand(),
		newPolicyCommand(),
		newMemmonCommand(),
		newManCommand(),
		newNoteNodesCommand(),
	}
}
