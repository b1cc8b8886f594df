package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/mpitrace/mpitrace/internal/launch"
	"github.com/mpitrace/mpitrace/internal/launch/doctor"
	"github.com/mpitrace/mpitrace/segment"
	"github.com/spf13/cobra"
)

func newDoctorCommand() *cobra.Command {
	var shim string
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what works on this machine, and how to mend the rest",
		Long: `Look at what mpitrace needs on this machine: an MPI that it knows, the library
that it preloads, a clock, shared memory, limits, and what act mode needs. Each
line is ok, warn (it works, but less well) or fail, with what to do about it. The
exit status is 1 if a line says fail.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("the path of mpitrace: %w", err)
			}
			path, err := launch.FindShim(shim, self)
			checks := doctor.Examine(doctor.Options{Shim: path, ShimError: err, Bases: segment.BaseDirs(), Devices: devicesUp})
			if asJSON {
				encoder := json.NewEncoder(c.OutOrStdout())
				encoder.SetIndent("", "  ")
				err = encoder.Encode(map[string]any{"schema": 1, "version": programVersion(), "checks": checks})
			} else {
				err = doctor.WriteText(c.OutOrStdout(), checks)
			}
			if err == nil && doctor.Failed(checks) {
				return exitStatus(statusFailed)
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	c.Flags().StringVar(&shim, "shim", "", "path of "+launch.ShimName+" (default as for run)")
	return c
}
