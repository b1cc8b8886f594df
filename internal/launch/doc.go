// Package launch runs a command under measurement. It recognises the MPI
// launcher, rewrites its command line so that the ranks, and only they, are
// given the shim and its settings, and passes signals and the exit status
// through:
//
//	kind := launch.Recognise(path, probe)
//	shim = launch.ChooseShim(shim, kind, path, words, os.Environ())
//	plan, err := launch.Make(launch.Request{Kind: kind, Args: args, Env: os.Environ(), Preload: shim})
//	ended, err := launch.Run(plan.Args, plan.Env, launch.Catch())
//
// Each launcher has one file: openmpi.go, hydra.go, slurm.go. Rewriting is a
// pure function of the command and its environment, documented by the text
// files in testdata.
//
// This package knows nothing of segments and results; collecting them is the
// work of package harvest.
package launch
