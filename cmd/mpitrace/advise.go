package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/mpitrace/mpitrace/internal/advise"
	"github.com/mpitrace/mpitrace/internal/knobs"
	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/reusetrack"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/spf13/cobra"
)

// adviseOptions are the options of mpitrace advise.
type adviseOptions struct {
	model     modelOptions
	costs     string
	saveCosts string
	json      bool
}

// newAdviceOptions are those of a command without any.
func newAdviceOptions() *adviseOptions {
	return &adviseOptions{model: modelOptions{eagerLimit: defaultEagerLimit}}
}

func newAdviseCommand() *cobra.Command {
	o := newAdviceOptions()
	c := &cobra.Command{
		Use:   "advise [RESULT | JOB]",
		Short: "Say what each technique would have saved a job",
		Long: `Say from a result alone, without running anything again, how many seconds each
technique would have saved, where, how sure that is and on what assumptions:
sending straight from buffers that are used again, moving large messages while
the program computes, and collectives that do not wait for late ranks. That there
is nothing to gain is an answer too. Nothing is changed.

What copying and registering memory cost is measured on this node in about half
a second, with locked memory in place of a network's registration. Costs that
were measured on the machine that the job ran on are better: --costs. RESULT and
JOB are as for mpitrace report.`,
		Example: `  mpitrace advise                         the newest result here
  mpitrace advise --eager-limit 64K mpitrace-20260101-120000-n1-4711
  mpitrace advise --save-costs node.json  measure on a compute node ...
  mpitrace advise --costs node.json       ... and use it elsewhere`,
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
	o.model.addFlags(c)
	c.Flags().StringVar(&o.costs, "costs", "", "`file` with the costs of copying and registering, instead of measuring here")
	c.Flags().StringVar(&o.saveCosts, "save-costs", "", "`file` to keep the costs in that were measured here")
	c.Flags().BoolVar(&o.json, "json", false, "write JSON")
	c.MarkFlagsMutuallyExclusive("costs", "save-costs")
	return c
}

func (o *adviseOptions) run(name string, stdout, stderr io.Writer) error {
	options, err := o.model.load()
	if err != nil {
		return err
	}
	path, said, err := report.Find(name, ".", segment.BaseDirs(), false)
	if err != nil {
		return err
	}
	if said != "" {
		say(stderr, "this is "+said)
	}
	if options.Costs, err = o.priced(stderr); err != nil {
		return err
	}
	r, err := report.Load(path, options)
	if err != nil {
		return err
	}
	say(stderr, r.Problems...)
	result := advise.Advise(r.AdviceInput())
	if o.json {
		return result.WriteJSON(stdout)
	}
	return result.WriteText(stdout)
}

// priced is the costs of the file, or those of this node. Where memory must not
// be locked the advice has to do without.
func (o *adviseOptions) priced(stderr io.Writer) (*reusetrack.Costs, error) {
	if o.costs != "" {
		return loadCosts(o.costs)
	}
	costs, err := reusetrack.Measure(reusetrack.MeasureOptions{})
	switch {
	case errors.Is(err, reusetrack.ErrMemlock) && o.saveCosts == "":
		fmt.Fprintf(stderr, "mpitrace: costs are not known: %v\n", err)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("measuring costs: %w", err)
	case o.saveCosts == "":
		return costs, nil
	}
	file, err := os.OpenFile(o.saveCosts, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("--save-costs: %s exists already: remove it or choose another name", o.saveCosts)
	case err != nil:
		return nil, fmt.Errorf("--save-costs: %w", err)
	}
	return costs, errors.Join(costs.WriteJSON(file), file.Close())
}

// loadCosts reads the file of --costs.
func loadCosts(path string) (*reusetrack.Costs, error) {
	costs, err := reusetrack.LoadCosts(path)
	if err != nil {
		return nil, fmt.Errorf("--costs: %w", err)
	}
	return costs, nil
}

// modelOptions say what is known of the machine that a job ran on.
type modelOptions struct{ eagerLimit, network string }

const defaultEagerLimit = "8K"

func (o *modelOptions) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.eagerLimit, "eager-limit", defaultEagerLimit, "largest `payload` that the MPI library sends at once, with K or M")
	c.Flags().StringVar(&o.network, "network", "", "`file` with the time of a message, {\"startup_ns\": ..., \"ns_per_byte\": ...} (default: what mpitrace bench latency stored for the node, if the job ran on one)")
}

// load turns them into options of a report.
func (o *modelOptions) load() (report.Options, error) {
	var out report.Options
	limit, err := knobs.ParseSize(o.eagerLimit)
	if err != nil {
		return out, fmt.Errorf("--eager-limit: %w", err)
	}
	out.EagerLimit = uint64(limit)
	if o.network != "" {
		if out.Network, err = report.LoadNetwork(o.network); err != nil {
			return out, fmt.Errorf("--network: %w", err)
		}
		return out, nil
	}
	// without a cache directory there is no calibration in it
	out.Calibrations, _ = report.CalibrationDir()
	return out, nil
}
