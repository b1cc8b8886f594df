package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/internal/knobs"
	"github.com/mpitrace/mpitrace/internal/launch"
	"github.com/mpitrace/mpitrace/policy"
	"github.com/spf13/cobra"
)

// runOptions are the options of mpitrace run.
type runOptions struct {
	shim   string
	wait   time.Duration
	memory bool // watch the ranks' memory
	knobs  []*knobs.Value
	given  map[string]bool // flags on the command line
	stderr io.Writer
}

func newRunCommand() *cobra.Command {
	o := &runOptions{given: map[string]bool{}}
	c := &cobra.Command{
		Use:   "run [options] -- COMMAND [arguments]",
		Short: "Run a program or an MPI launcher under measurement",
		Long: `Run COMMAND with the measuring library preloaded into the ranks.

COMMAND is what you would have typed: mpirun or mpiexec of Open MPI, MPICH and
their kin, srun, a script, or the program itself as a single process. A launcher
is given the library and the settings by its own options, so that it hands them
to all nodes and is not measured itself. Signals reach COMMAND, and the exit
status is that of COMMAND (128 and the number of the signal that ended it).

When COMMAND has ended, what killed processes left behind is collected from all
nodes of the job, and one line says where the result is. Every setting can also
be given as an environment variable; an option wins (of policies: docs/policy.md).`,
		Example: `  mpitrace run -- mpirun -n 4 ./app input.dat
  mpitrace run -o before --stack 4 -- srun -n 64 ./app
  mpitrace run -- ./app`,
		DisableFlagsInUseLine: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("no command to run: mpitrace run -- mpirun -n 4 ./app")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.stderr = c.ErrOrStderr()
			for _, v := range o.knobs {
				o.given[v.Knob.Name] = c.Flags().Changed(v.Knob.Flag)
			}
			return o.run(args)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	c.Flags().SetInterspersed(false)
	c.Flags().SortFlags = false
	for _, k := range knobs.All {
		if k.HasFlag() {
			o.addKnob(c, k)
		}
	}
	c.Flags().StringVar(&o.shim, "shim", "", "path of "+launch.ShimName+" (default: beside mpitrace or in ../lib, the variant that fits the MPI library)")
	c.Flags().BoolVar(&o.memory, "memory-monitor", false, "let the ranks see their memory go away, with the node's mpitrace memmon or one for this job (docs/memory-monitor.md)")
	c.Flags().DurationVar(&o.wait, "wait", 5*time.Second, "how long to wait for ranks that outlive the launcher")
	return c
}

// addKnob makes a setting an option.
func (o *runOptions) addKnob(c *cobra.Command, k knobs.Knob) {
	v := &knobs.Value{Knob: k}
	o.knobs = append(o.knobs, v)
	short := ""
	if k.Name == "output" {
		short = "o"
	}
	flag := c.Flags().VarPF(v, k.Flag, short, k.Doc)
	switch {
	case k.Type == "bool":
		flag.NoOptDefVal = "1"
	case k.Name == "act":
		flag.NoOptDefVal = k.Default
		flag.DefValue = "" // without it nothing is carried
	}
	if k.Type == "enum" {
		_ = c.RegisterFlagCompletionFunc(k.Flag, cobra.FixedCompletions(k.Values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// settings are the knobs in effect by name: the option, else the environment
// variable. What is at its default is left out.
func (o *runOptions) settings() (map[string]string, error) {
	out := map[string]string{}
	for _, v := range o.knobs {
		k := v.Knob
		if o.given[k.Name] {
			out[k.Name] = v.String()
			continue
		}
		text, err := fromEnvironment(k)
		if err != nil {
			return nil, err
		}
		if text != "" {
			out[k.Name] = text
		}
	}
	return out, checkSizes(out)
}

// fromEnvironment is a setting as its variable gives it, empty if that is not set.
func fromEnvironment(k knobs.Knob) (string, error) {
	text := os.Getenv(k.Env)
	if text == "" {
		return "", nil
	}
	checked, err := k.Check(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", k.Env, err)
	}
	return checked, nil
}

// policy is what a job that acts is told, nil if it does not. It chooses the
// mode: that of an option, or of the variable if no option names a policy, else that of
// the policy, which may be that of the site.
func (o *runOptions) policy(settings map[string]string, site string) (*policy.Effective, error) {
	text, asked := settings["act"]
	mode := settings["mode"]
	named := mode != "" && (o.given["mode"] || !o.given["act"])
	switch {
	case o.given["act"] && named && mode != "act":
		return nil, fmt.Errorf("--act and --mode %s contradict each other: leave one out", mode)
	case named && mode != "act":
		return nil, nil
	case !asked && mode == "act":
		text = defaultOf("act")
	case !o.given["act"]:
		text = "" // it comes from the environment, or from the site
	}
	effective, err := effectivePolicy(os.Getenv(policyVariable), text, site)
	if err != nil {
		return nil, err
	}
	if named {
		effective.Settings["mode"] = policy.Value{Text: mode, Source: "--mode or MPITRACE_MODE"}
	}
	if settings["mode"] = effective.Mode(); settings["mode"] != "act" {
		return nil, nil
	}
	return effective, nil
}

// checkSizes compares the sizes of a segment.
func checkSizes(settings map[string]string) error {
	size := func(name string) int64 {
		n, _ := knobs.ParseSize(orDefault(settings[name], defaultOf(name)))
		return n
	}
	if first, most := size("segment_bytes"), size("segment_bytes_max"); first > most {
		return fmt.Errorf("--segment-bytes %d is more than --segment-bytes-max %d: raise the second", first, most)
	}
	return nil
}

// defaultOf is the default of a setting.
func defaultOf(name string) string { return knobOf(name).Default }

// knobOf is a setting by name.
func knobOf(name string) knobs.Knob {
	for _, k := range knobs.All {
		if k.Name == name {
			return k
		}
	}
	return knobs.Knob{}
}

func orDefault(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// run prepares the job, runs it and brings its result home.
func (o *runOptions) run(args []string) error {
	settings, err := o.settings()
	if err != nil {
		return err
	}
	acting, err := o.policy(settings, sitePolicy)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("the path of mpitrace: %w", err)
	}
	shim, err := launch.FindShim(o.shim, self)
	if err != nil {
		return err
	}
	path, err := launch.LookPath(args[0])
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		hint := ""
		if _, other := policy.ParseString("", args[0]); o.given["act"] && (other == nil || strings.HasSuffix(args[0], ".json")) {
			hint = ": for a policy write --act=" + args[0]
		}
		fmt.Fprintf(o.stderr, "mpitrace: %s: command not found%s\n", args[0], hint)
		return exitStatus(127)
	}
	if err != nil {
		fmt.Fprintf(o.stderr, "mpitrace: %v\n", err)
		return exitStatus(126)
	}
	j := &job{id: launch.NewJobID(time.Now()), self: self, settings: settings, policy: acting, wait: o.wait, shimGiven: o.shim != "", memory: o.memory, stderr: o.stderr, quiet: settings["quiet"] == "1"}
	if j.dir = settings["output"]; j.dir == "" {
		if j.dir, err = filepath.Abs("mpitrace-" + j.id); err != nil {
			return fmt.Errorf("result directory: %w", err)
		}
	}
	if settings["mode"] == "advise" {
		j.advises, settings["mode"] = true, "observe" // it is said afterwards
	}
	return j.run(launch.Recognise(path, launch.Version), shim, args)
}
