package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/mpitrace/mpitrace/policy"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/spf13/cobra"
)

// sitePolicy is where a site keeps what holds for all its jobs.
const sitePolicy = "/etc/mpitrace/policy.json"

// policyVariable holds a policy in one line, or names a file.
const policyVariable = "MPITRACE_ACT"

func newPolicyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Check and show what a job is told to do with its messages",
		Long: `Check, show and explain policies: which protocols and limits hold for the
messages of a job. A policy is a JSON file, or one line as in
eager=reuse,rndv=read-event,eager-limit=16K. docs/policy.md describes both.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newPolicyCheckCommand(), newPolicyShowCommand(), newPolicyExplainCommand(), newPolicyCalibrateCommand())
	return c
}

func newPolicyCheckCommand() *cobra.Command {
	var here bool
	site := sitePolicy
	c := &cobra.Command{
		Use:   "check FILE | LINE",
		Short: "Find what is wrong with a policy",
		Long: `Find what is wrong with a policy, by itself and with that of the site below it:
one line for each problem, FILE:LINE:COLUMN: NAME: what, and status 1. Nothing is
written, and the status is 0, if all is well.`,
		Example: `  mpitrace policy check job.json
  mpitrace policy check eager=reuse,rndv=read-event,eager-limit=16K
  mpitrace policy check --here job.json   also: are the devices on this node?`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			err := checkPolicy(args[0], site, here)
			var problems policy.Problems
			if !errors.As(err, &problems) {
				return err
			}
			for _, p := range problems {
				fmt.Fprintln(c.OutOrStdout(), segment.CleanText(p.String()))
			}
			return exitStatus(statusFailed)
		},
	}
	c.Flags().BoolVar(&here, "here", false, "also compare with the devices of this node")
	addSiteFlag(c, &site)
	return c
}

func addSiteFlag(c *cobra.Command, site *string) {
	c.Flags().StringVar(site, "site", sitePolicy, "`file` of the site; it need not be there")
}

func checkPolicy(name, site string, here bool) error {
	layer, err := readPolicy(name)
	if err != nil {
		return err
	}
	below, err := readSitePolicy(site)
	if err != nil {
		return err
	}
	effective, err := policy.Resolve(layer, below)
	if err != nil || !here {
		return err
	}
	devices, err := policyDevices()
	if err != nil {
		return err
	}
	return effective.CheckDevices(devices)
}

func newPolicyShowCommand() *cobra.Command {
	var asJSON, asLines bool
	site := sitePolicy
	c := &cobra.Command{
		Use:   "show [FILE | LINE]",
		Short: "Show the policy in effect, and where each value comes from",
		Long: `Show the policy that a job would have: ` + policyVariable + ` over the file of the job over
that of the site over what is built in. LINE stands for ` + policyVariable + `.`,
		Example: `  mpitrace policy show
  mpitrace policy show job.json
  mpitrace policy show --lines auto       what the ranks get`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			effective, err := effectivePolicy(os.Getenv(policyVariable), strings.Join(args, ""), site)
			if err != nil {
				return err
			}
			text := effective.Table()
			switch {
			case asJSON:
				text = string(effective.JSON())
			case asLines:
				text = effective.Lines()
			}
			_, err = io.WriteString(c.OutOrStdout(), text)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write it as a file of a policy")
	c.Flags().BoolVar(&asLines, "lines", false, "write it as the ranks get it")
	c.MarkFlagsMutuallyExclusive("json", "lines")
	addSiteFlag(c, &site)
	return c
}

// effectivePolicy is what holds for a job whose user gave name, a file, a line
// or nothing: the environment over the file over that of the site. A line takes
// the place of the environment, which is then not looked at.
func effectivePolicy(environment, name, site string) (*policy.Effective, error) {
	var line, file *policy.Layer
	var err error
	switch {
	case isPolicyFile(name):
		file, err = readPolicy(name)
	case name != "":
		environment = ""
		line, err = readPolicy(name)
	}
	if err != nil {
		return nil, err
	}
	if environment != "" {
		if line, err = readPolicyFrom(policyVariable, environment); err != nil {
			return nil, err
		}
	}
	below, err := readSitePolicy(site)
	if err != nil {
		return nil, err
	}
	return policy.Resolve(line, file, below)
}

// isPolicyFile tells a file from a line: a line has no slash, and does not end
// in .json.
func isPolicyFile(name string) bool {
	return strings.Contains(name, "/") || strings.HasSuffix(name, ".json")
}

// readPolicy reads a file or a line, which both mean mode act unless they say
// another one.
func readPolicy(name string) (*policy.Layer, error) {
	source := name
	if !isPolicyFile(name) {
		source = "command line"
	}
	return readPolicyFrom(source, name)
}

func readPolicyFrom(source, name string) (*policy.Layer, error) {
	if !isPolicyFile(name) {
		layer, err := policy.ParseString(source, name)
		if info, missing := os.Stat(name); err != nil && missing == nil && info.Mode().IsRegular() {
			return nil, policy.Problems{{Source: source, Text: fmt.Sprintf("%s is no policy in one line: for the file of that name write ./%s", name, name)}}
		}
		return layer, err
	}
	text, err := readBounded(name, policy.MaxBytes+1)
	if err != nil {
		return nil, err
	}
	layer, err := policy.ParseJSON(name, text)
	if err == nil && layer.Settings["mode"] == "" {
		layer.Settings["mode"] = "act"
	}
	return layer, err
}

func readSitePolicy(path string) (*policy.Layer, error) {
	text, err := readBounded(path, policy.MaxBytes+1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return policy.ParseJSON(path, text)
}

// readBounded reads at most limit bytes of a file.
func readBounded(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, limit))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return text, nil
}
