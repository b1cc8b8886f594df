package launch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// slurmSyntax lists the options of srun that take values.
var slurmSyntax = syntax{letters: true, optional: "IK", words: table(`
	A b c d D e i J L m M n N o p P q r S t T w W x C G B
	account acctg-freq bb bbf bcast bcast-exclude begin cpus-per-task comment
	container cpu-freq dependency deadline delay-boot chdir export error epilog
	gres gres-flags input jobid job-name licenses clusters distribution
	mail-type mail-user mcs-label mpi ntasks ntasks-per-node nodes output
	het-group pack-group partition power priority prolog profile qos relative
	core-spec signal slurmd-debug switches task-epilog task-prolog thread-spec
	threads time time-min wait wckey cluster-constraint constraint mem mincpus
	reservation tmp nodelist exclude mem-per-cpu sockets-per-node
	cores-per-socket threads-per-core extra-node-info ntasks-per-core
	ntasks-per-socket ntasks-per-gpu ntasks-per-tres cpus-per-gpu gpus gpu-bind
	gpu-freq gpus-per-node gpus-per-socket gpus-per-task mem-per-gpu cpu-bind
	mem-bind accel-bind hint nodefile network open-mode prefer tres-bind
	tres-per-task uid gid export-file segment`)}

// makeSlurm hands the preload on by --export, as a value, so that srun itself
// does not have it; the settings are set in the environment of srun and named
// where the list of the user would keep them back.
func makeSlurm(r Request) (*Plan, error) {
	p := &Plan{Env: withSettings(r.Env, r.Set)}
	parts := contexts(r.Args[1:])
	_, allocated := lookup(r.Env, "SLURM_JOB_ID")
	for i, args := range parts {
		options, rest := slurmSyntax.parse(args)
		export, set := lookup(r.Env, "SLURM_EXPORT_ENV")
		if !set {
			export = "ALL"
		}
		var kept []string
		end := 0 // of the words that are kept, and of those that are not
		prolog, many := false, false
		for _, o := range options {
			switch o.name {
			case "export":
				export = o.value()
				end = o.end
				continue
			case "prolog":
				prolog = true
			case "multi-prog":
				many = true
			case "jobid":
				allocated = true
			}
			// the options of a cluster (-ln 4) share a word
			kept = append(kept, args[max(o.first, end):max(o.end, end)]...)
			end = max(o.end, end)
		}
		if rest < len(args) && !many {
			p.Programs = append(p.Programs, args[rest])
		}
		ours := []string{"--export=" + r.extendExport(export)}
		if i == 0 && !prolog && !allocated && r.Self != "" {
			ours = append(ours, "--prolog="+r.Self)
			p.again = slices.Concat([]string{r.Args[0]}, again, slurmAccount(args, options))
		}
		parts[i] = slices.Concat(ours, kept, args[rest:])
	}
	p.Args = append([]string{r.Args[0]}, joinContexts(parts)...)
	if allocated {
		p.sweep = sweepSlurm(r)
	}
	return p, nil
}

// again are the options of a step that starts one process on each of some
// nodes, in an allocation of its own, and gives up when they are not free soon.
var again = []string{"--ntasks-per-node=1", "--mpi=none", "--export=ALL", "--quiet", "--immediate=30"}

// slurmAccount are the user's options that say on whose account and where a
// job runs.
func slurmAccount(args []string, options []option) []string {
	var out []string
	for _, o := range options {
		switch o.name {
		case "A", "account", "q", "qos", "M", "clusters", "reservation", "C", "constraint", "wckey":
			out = append(out, args[o.first:o.end]...)
		}
	}
	return out
}

// nodesFile keeps the nodes of a job that srun made, until its result is
// complete.
const nodesFile = ".nodes"

// nodesVariables are what it holds, as srun gives it to its prolog.
var nodesVariables = []string{"SLURM_NODELIST", "SLURM_JOB_NUM_NODES", "SLURM_JOB_PARTITION"}

// NoteNodes is the work of srun's prolog: it keeps the nodes of the job, as
// env has them, in the result directory.
func NoteNodes(dir string, env []string) error {
	var lines []string
	for _, name := range nodesVariables {
		lines = append(lines, lookupOr(env, name))
	}
	return os.WriteFile(filepath.Join(dir, nodesFile), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// RecallNodes makes the nodes that NoteNodes kept those of Sweep, and removes
// the note. (A task epilog could collect without another job, but with one,
// even /bin/true, srun says 0 instead of 137 after some cancelled steps.)
func (p *Plan) RecallNodes(dir string) {
	path := filepath.Join(dir, nodesFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	_ = os.Remove(path)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if p.again == nil || len(lines) != len(nodesVariables) || lines[0] == "" || lines[1] == "" {
		return
	}
	p.sweep = append(slices.Clone(p.again), "--nodelist="+lines[0], "--nodes="+lines[1], "--ntasks="+lines[1])
	if lines[2] != "" {
		p.sweep = append(p.sweep, "--partition="+lines[2])
	}
}

// extendExport adds ours to the value of --export: ALL, NONE or NIL, or a list of
// names and assignments.
func (r Request) extendExport(export string) string {
	inherited := false
	preload := r.Preload
	var kept []string
	for _, entry := range splitList(export) {
		name, value, assigned := strings.Cut(entry, "=")
		switch {
		case strings.EqualFold(entry, "NONE"), strings.EqualFold(entry, "NIL"), entry == "":
		case strings.EqualFold(entry, "ALL"):
			inherited = true
			preload = JoinPreload(preload, lookupOr(r.Env, preloadVariable))
			kept = append(kept, "ALL")
		case name == preloadVariable && assigned:
			preload = JoinPreload(r.Preload, strings.Trim(value, `"'`))
		case name == preloadVariable:
			preload = r.preload(r.Env)
		default:
			kept = append(kept, entry)
		}
	}
	kept = append(kept, preloadVariable+"="+preload)
	if !inherited {
		kept = append(kept, names(r.Set)...)
	}
	return strings.Join(kept, ",")
}

// lookupOr is the value of a variable, empty if it is not set.
func lookupOr(env []string, name string) string {
	value, _ := lookup(env, name)
	return value
}

// splitList splits at commas outside quotes.
func splitList(list string) []string {
	var quote rune
	return strings.FieldsFunc(list, func(r rune) bool {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case quote == 0 && r == ',':
			return true
		}
		return false
	})
}

// sweepSlurm starts one process on each node of the allocation, beside
// whatever still runs there.
func sweepSlurm(r Request) []string {
	words := []string{r.Args[0], "--ntasks-per-node=1", "--overlap", "--mpi=none", "--export=ALL", "--quiet"}
	if nodes, ok := lookup(r.Env, "SLURM_JOB_NUM_NODES"); ok {
		words = append(words, "--nodes="+nodes, "--ntasks="+nodes)
	}
	options, _ := slurmSyntax.parse(contexts(r.Args[1:])[0])
	for _, o := range options {
		switch o.name {
		case "jobid", "clusters", "het-group", "pack-group":
			words = append(words, "--"+o.name+"="+o.value())
		case "M":
			words = append(words, "--clusters="+o.value())
		}
	}
	return words
}
