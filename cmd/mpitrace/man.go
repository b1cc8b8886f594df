package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/mpitrace/mpitrace/internal/knobs"
	"github.com/mpitrace/mpitrace/internal/manpage"
	"github.com/spf13/cobra"
)

func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the man pages of all commands into DIR",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			date, err := pageDate(os.Getenv("SOURCE_DATE_EPOCH"))
			if err != nil {
				return err
			}
			manual := manpage.Manual{Version: programVersion(), Date: date, Sections: rootSections()}
			return manual.WriteTree(args[0], c.Root())
		},
	}
}

// pageDate is the date that a reproducible build prescribes, else today.
func pageDate(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Now(), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH=%s: not a number of seconds since 1970", epoch)
	}
	return time.Unix(seconds, 0), nil
}

// rootSections are what mpitrace(1) says for all commands.
func rootSections() []manpage.Section {
	variables := manpage.Section{Heading: "ENVIRONMENT"}
	for _, k := range knobs.All {
		variables.Entries = append(variables.Entries, [2]string{k.Env, k.Doc})
	}
	return []manpage.Section{
		{Heading: "EXIT STATUS", Entries: [][2]string{
			{"0", "success"},
			{"1", "it was done or begun, and something failed that was asked for: a threshold was exceeded, a check or benchmark failed, a part could not be collected or removed"},
			{"2", "nothing was done: a wrong command line, or input that cannot be read"},
			{"other", "mpitrace run ends with the status of its command"},
		}},
		variables,
		{Heading: "FILES", Entries: [][2]string{
			{"mpitrace-JOB/", "result of a job, in the directory where it was started"},
			{"/dev/shm/mpitrace-UID/", "segments of running jobs, and of dead ones that nobody has collected"},
			{"../lib/mpitrace/libmpishim.so", "the library that is preloaded, from where mpitrace itself lies"},
		}},
	}
}
