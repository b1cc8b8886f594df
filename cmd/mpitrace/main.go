// Command mpitrace runs MPI programs under measurement and reads the results.
package main

import "os"

func main() {
	os.Exit(execute(arguments(os.Args[1:], os.Getenv("SLURM_SCRIPT_CONTEXT")), os.Stdout, os.Stderr))
}

// arguments are the command line; as a task epilog of Slurm, which can have
// none, mpitrace collects what the dead processes of the job left on its node.
func arguments(args []string, script string) []string {
	if len(args) == 0 && script == "epilog_task" {
		return []string{"collect", "--idle", "--quiet"}
	}
	return args
}
