package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/report/page"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// reportOptions are the options of mpitrace report.
type reportOptions struct {
	by, ranks, sort, color string
	top                    int
	live, json, csv        bool
	html                   string // file to write the page to
	force                  bool
	model                  modelOptions
	costs                  string
}

func newReportCommand() *cobra.Command {
	o := &reportOptions{}
	c := &cobra.Command{
		Use:   "report [RESULT | JOB]",
		Short: "Show where the MPI time of a job went, or what it hangs in",
		Long: `Show what a job did in MPI: its share of the time and the balance over the
ranks, the functions and the places in the program that took it, sizes and
peers; then who arrives late at collectives and what that costs, whether message
buffers are used again, and how long the program blocks for requests. Of a job
that hangs or died it says first who is stuck in what call, since when, and who
is missing.

RESULT is a result directory, a packed result or a node file; JOB is the id of a
job whose segments still lie in shared memory, dead or alive. Without either it
is the newest result in this directory or, failing that, the newest job in
shared memory.`,
		Example: `  mpitrace report                     the newest result here
  mpitrace report --live              the job that runs on this node now
  mpitrace report --by site --top 20 mpitrace-20260101-120000-n1-4711
  mpitrace report --by arrival        who is late at collectives, and what it costs
  mpitrace report --by rank --sort time --csv > ranks.csv
  mpitrace report --rank 3,8-15 --json
  mpitrace report --html report.html  everything as one page for a browser`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return o.run(name, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().SortFlags = false
	c.Flags().StringVar(&o.by, "by", "", "one table in full: "+strings.Join(report.Views(), ", "))
	c.Flags().StringVar(&o.ranks, "rank", "", "only these ranks of MPI_COMM_WORLD, such as 0,4-7")
	c.Flags().IntVar(&o.top, "top", 0, "rows of each table; -1: all")
	c.Flags().StringVar(&o.sort, "sort", "", "order of rows: time, calls, bytes or name")
	c.Flags().BoolVar(&o.live, "live", false, "a job in shared memory on this node, the newest that is alive")
	c.Flags().BoolVar(&o.json, "json", false, "everything as JSON (docs/report-json.md)")
	c.Flags().BoolVar(&o.csv, "csv", false, "one table as CSV: that of --by, or the functions")
	c.Flags().StringVar(&o.html, "html", "", "everything as one page for a browser, in this `file`; -: standard output (docs/html-report.md)")
	c.Flags().BoolVar(&o.force, "force", false, "replace the file of --html if it exists")
	o.model.addFlags(c)
	c.Flags().StringVar(&o.costs, "costs", "", "`file` with the costs of copying and registering, as mpitrace advise --save-costs writes it")
	c.Flags().StringVar(&o.color, "color", "auto", "auto, always or never")
	c.MarkFlagsMutuallyExclusive("json", "csv", "html")
	for _, flag := range []string{"by", "sort", "top"} {
		c.MarkFlagsMutuallyExclusive("html", flag) // the page has all tables and sorts them itself
	}
	complete(c, "by", report.Views()...)
	complete(c, "sort", "time", "calls", "bytes", "name")
	complete(c, "color", "auto", "always", "never")
	return c
}

// complete offers the values of a flag to the shell. The flag exists, so there
// is no error to handle.
func complete(c *cobra.Command, flag string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func (o *reportOptions) run(name string, stdout, stderr io.Writer) error {
	ranks, err := report.ParseRanges(o.ranks)
	if err != nil {
		return fmt.Errorf("--rank: %w", err)
	}
	view := report.View{By: o.by, Top: o.top, Sort: o.sort, ASCII: !utf8Locale(), Width: columns(stdout)}
	if view.Color, err = wantColor(o.color, stdout); err != nil {
		return err
	}
	if err := view.Check(); err != nil {
		return err
	}
	if err := o.checkFile(); err != nil {
		return err
	}
	options, err := o.loadOptions(ranks)
	if err != nil {
		return err
	}
	path, said, err := report.Find(name, ".", segment.BaseDirs(), o.live)
	if err != nil {
		return err
	}
	if said != "" {
		say(stderr, "this is "+said)
	}
	r, err := report.Load(path, options)
	if err != nil {
		return err
	}
	switch {
	case o.html != "":
		return o.writePage(r, stdout, stderr)
	case o.json:
		return r.WriteJSON(stdout)
	case o.csv:
		say(stderr, r.Problems...)
		return r.WriteCSV(stdout, view)
	case o.by != "":
		say(stderr, r.Problems...) // the whole report has them in its text
	}
	return r.WriteText(stdout, view)
}

// loadOptions is what the report is made with.
func (o *reportOptions) loadOptions(ranks report.Ranges) (report.Options, error) {
	options, err := o.model.load()
	if err == nil && o.costs != "" {
		options.Costs, err = loadCosts(o.costs)
	}
	options.Ranks, options.Detail, options.Pairs = ranks, o.json || ranks != nil, o.pairs()
	if o.html != "" {
		options = page.Needs(options)
	}
	return options, err
}

// checkFile refuses a file that --html must not write, before the work begins.
func (o *reportOptions) checkFile() error {
	switch {
	case o.force && o.html == "":
		return errors.New("--force replaces the file of --html: say which")
	case o.html == "" || o.html == "-":
		return nil
	}
	return page.CheckFile(o.html, o.force)
}

// writePage writes the page and says where it is.
func (o *reportOptions) writePage(r *report.Report, stdout, stderr io.Writer) error {
	options := page.Options{Version: programVersion()}
	if o.html == "-" {
		return page.Write(stdout, r, options)
	}
	size, err := page.WriteFile(o.html, o.force, r, options)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "mpitrace: %s is written, %s\n", o.html, report.Bytes(uint64(size)))
	return nil
}

// pairs is how many of the heaviest pairs of ranks the output may need.
func (o *reportOptions) pairs() int {
	const many = 1 << 20
	if o.by == "peer" && (o.csv || o.top < 0) {
		return many
	}
	return min(max(0, o.top), many)
}

// wantColor decides on colour: auto is on a terminal that has it, unless
// NO_COLOR is set.
func wantColor(choice string, out io.Writer) (bool, error) {
	switch choice {
	case "always":
		return true, nil
	case "never":
		return false, nil
	case "auto":
		file, ok := out.(*os.File)
		if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
			return false, nil
		}
		_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
		return err == nil, nil
	}
	return false, fmt.Errorf("--color %s: choose auto, always or never", choice)
}

// columns is the width of reports: 100, or that of a narrower terminal.
func columns(out io.Writer) int {
	const usual = 100
	file, ok := out.(*os.File)
	if !ok {
		return usual
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return usual
	}
	return min(usual, int(size.Col))
}

// utf8Locale tells whether the locale says that the output is UTF-8.
func utf8Locale() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := os.Getenv(name); value != "" {
			value = strings.ToLower(value)
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return false
}
