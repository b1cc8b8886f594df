package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mpitrace/mpitrace/policy/explain"
	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/reusetrack"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/spf13/cobra"
)

// calibrationBytes bounds the text of a calibration.
const calibrationBytes = 1 << 20

// calibrationPath is where the calibration of a node is kept.
func calibrationPath(node string) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("where calibrations are kept: %w", err)
	}
	return filepath.Join(dir, "mpitrace", "calibration-"+node+".json"), nil
}

func newPolicyCalibrateCommand() *cobra.Command {
	var device, output string
	c := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure what protocols cost on this node",
		Long: `Measure what copying, looking up, registering and a message cost on this node, in
some seconds, and keep it for mpitrace policy explain in
~/.cache/mpitrace/calibration-NODE.json. Copies and look-ups are measured here,
the rest by mpitrace-fabric between two processes of this node.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			node, err := os.Hostname()
			if err != nil {
				return fmt.Errorf("name of this node: %w", err)
			}
			if output == "" {
				if output, err = calibrationPath(node); err != nil {
					return err
				}
			}
			calibration, err := calibrate(node, device)
			if err != nil {
				return err
			}
			if err := writeCalibration(output, calibration); err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), output)
			return nil
		},
	}
	c.Flags().StringVar(&device, "device", "shm", "`device` to measure, as mpitrace fabric list names it")
	c.Flags().StringVar(&output, "output", "", "`file` to write (default: in the cache of the user)")
	return c
}

func calibrate(node, device string) (*explain.Calibration, error) {
	var registration struct {
		Rows []struct {
			Bytes        uint64
			RegisterUS   float64 `json:"register_us"`
			DeregisterUS float64 `json:"deregister_us"`
		}
	}
	if err := askFabric(&registration, "registration", "--device", device); err != nil {
		return nil, err
	}
	var pingpong struct {
		Rows []struct {
			Operation string
			Bytes     uint64
			HalfUS    float64 `json:"half_round_trip_us"`
		}
	}
	if err := askFabric(&pingpong, "pingpong", "--device", device, "--size", "8,2K,32K,1M", "--iterations", "2000"); err != nil {
		return nil, err
	}
	var register, deregister, transfer reusetrack.Curve
	for _, r := range registration.Rows {
		register = append(register, reusetrack.Point{Bytes: r.Bytes, NS: 1000 * r.RegisterUS})
		deregister = append(deregister, reusetrack.Point{Bytes: r.Bytes, NS: 1000 * r.DeregisterUS})
	}
	for _, r := range pingpong.Rows {
		if r.Operation != "SEND" {
			transfer = append(transfer, reusetrack.Point{Bytes: r.Bytes, NS: 1000 * r.HalfUS})
		}
	}
	if len(register) == 0 || len(transfer) == 0 {
		return nil, fmt.Errorf("%s measured no registration or no WRITE on %s", fabricProgram, device)
	}
	costs, err := reusetrack.Measure(reusetrack.MeasureOptions{Register: register})
	if err != nil {
		return nil, fmt.Errorf("measuring copies and look-ups: %w", err)
	}
	c := &explain.Calibration{Schema: explain.CalibrationSchema, Node: node, Device: device, Costs: costs}
	c.Fabric(register, deregister, transfer)
	return c, c.Validate()
}

// writeCalibration puts the file there in one step: another mpitrace may be
// reading the old one.
func writeCalibration(path string, c *explain.Calibration) error {
	text, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return fmt.Errorf("calibration as JSON: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".calibration-")
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("calibration: %w", err), os.Remove(file.Name()))
	}
	return nil
}

// loadCalibration reads a file, or without a name that of this node.
func loadCalibration(path string) (*explain.Calibration, error) {
	own := path == ""
	if own {
		node, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("name of this node: %w", err)
		}
		if path, err = calibrationPath(node); err != nil {
			return nil, err
		}
	}
	text, err := readBounded(path, calibrationBytes+1)
	switch {
	case len(text) > calibrationBytes:
		return nil, fmt.Errorf("%s: more than %d bytes, which no calibration has", path, calibrationBytes)
	case own && errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("this node was never calibrated (%s): run mpitrace policy calibrate on a node of the job, and give its file with --calibration", path)
	case err != nil:
		return nil, err
	}
	c, err := explain.ReadCalibration(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func newPolicyExplainCommand() *cobra.Command {
	var name, calibration string
	var asJSON bool
	site := sitePolicy
	c := &cobra.Command{
		Use:   "explain [RESULT | JOB]",
		Short: "Say what a policy would choose for an observed job, and why",
		Long: `Say for each call site of an observed job which protocols the policy leaves open,
what a message would cost with each on the node that was calibrated, and which
one is chosen: the cheapest, or the one that the policy pins; then the same for each
function and size. What the costs were worked out from stands below each call site, and
what is not known in notes at the end.
RESULT and JOB are as for mpitrace report.`,
		Example: `  mpitrace policy calibrate
  mpitrace policy explain                 the newest result here
  mpitrace policy explain --policy job.json --calibration node.json mpitrace-20260101-120000-n1-4711`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			environment := os.Getenv(policyVariable)
			if name != "" {
				environment = ""
			}
			effective, err := effectivePolicy(environment, name, site)
			if err != nil {
				return err
			}
			costs, err := loadCalibration(calibration)
			if err != nil {
				return err
			}
			path, said, err := report.Find(strings.Join(args, ""), ".", segment.BaseDirs(), false)
			if err != nil {
				return err
			}
			if said != "" {
				say(c.ErrOrStderr(), "this is "+said)
			}
			r, err := report.Load(path, report.Options{EagerLimit: uint64(effective.EagerLimit(nil, costs.Device)), Costs: costs.Costs})
			if err != nil {
				return err
			}
			say(c.ErrOrStderr(), r.Problems...)
			in := r.AdviceInput()
			result := explain.Explain(&in, costs, effective)
			if asJSON {
				return result.WriteJSON(c.OutOrStdout())
			}
			return result.WriteText(c.OutOrStdout())
		},
	}
	c.Flags().SortFlags = false
	c.Flags().StringVar(&name, "policy", "", "policy, as a `file` or a line, in place of "+policyVariable)
	c.Flags().StringVar(&calibration, "calibration", "", "`file` of mpitrace policy calibrate (default: that of this node)")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	addSiteFlag(c, &site)
	return c
}
