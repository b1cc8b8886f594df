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

// arguments are the command line, but in the prolog that srun starts itself:
// it gives the words of the job, and there mpitrace notes the nodes.
func arguments(args []string, script, parent string) []string {
	if script == "prolog_srun" && parent == "srun" {
		return []string{"note-nodes"}
	}
	return args
}
