// Command mpitrace runs MPI programs under measurement and reads the results.
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	parent, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", os.Getppid()))
	args := arguments(os.Args[1:], os.Getenv("SLURM_SCRIPT_CONTEXT"), strings.TrimSpace(string(parent)))
	os.Exit(execute(args, os.Stdout, os.Stderr))
}

// arguments are the command line, but for the programs that Slurm runs around
// a job. To its prolog, which srun starts itself, it gives the words of the
// job: there mpitrace notes the nodes. To a task epilog it gives none: there
// mpitrace collects what the dead processes of the job left on its node.
func arguments(args []string, script, parent string) []string {
	switch {
	case script == "prolog_srun" && parent == "srun":
		return []string{"note-nodes"}
	case script == "epilog_task" && len(args) == 0:
		return []string{"collect", "--idle", "--quiet"}
	}
	return args
}
