package launch

import (
	"fmt"
	"slices"
	"strings"
)

// openMPISyntax lists the options of mpirun that take values: Open MPI 4 and
// 5, PRRTE.
var openMPISyntax = syntax{words: table(`
	am app bind-to c np cf cartofile cpu-list cpu-set cpus-per-proc
	cpus-per-rank debug-daemons-file debugger default-hostfile display dvm-uri
	H host hnp hostfile launch-agent machinefile map-by max-restarts
	max-vm-size N n npernode npersocket ompi-server output output-filename
	output-proctable path personality ppr prefix preload-files rank-by
	report-events report-pid report-uri rf rankfile runtime-options stdin
	stream-buffering timeout spawn-timeout tune wd wdir set-cwd x x-file xml-file xterm
	add-host add-hostfile pmixam pset rtos with-ft`,
	`mca gmca omca prtemca gprtemca pmixmca gpmixmca`)}

// openMPIReach are the options that say how other nodes are reached.
var openMPIReach = []string{
	"allow-run-as-root", "H", "host", "hostfile", "machinefile",
	"default-hostfile", "launch-agent", "mca", "gmca", "omca", "prtemca",
	"gprtemca", "pmixmca", "gpmixmca", "prefix", "noprefix", "personality",
	"do-not-resolve", "dvm-uri",
}

// openMPIVariables hold hosts where the command line does not.
var openMPIVariables = []string{
	"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile",
	"SLURM_JOB_NODELIST", "PBS_NODEFILE", "PE_HOSTFILE", "LSB_HOSTS",
	"LSB_MCPU_HOSTS", "LSB_DJOB_HOSTFILE",
}

const (
	envList         = "mca_base_env_list"
	envListVariable = "OMPI_MCA_" + envList
)

// makeOpenMPI hands the settings on by -x in every context of the command
// line (it is not global). The preload is a value of -x, so that it is neither
// in the environment of mpirun nor in that of its daemons; the settings, which
// do nothing without it, are set in mpirun's environment and named by -x.
func makeOpenMPI(r Request) (*Plan, error) {
	p := &Plan{Env: withSettings(r.Env, r.Set)}
	parts := contexts(r.Args[1:])
	list, listed := lookup(r.Env, envListVariable)
	if listed {
		p.Env = with(p.Env, envListVariable, r.extendEnvList(list))
	}
	for i, args := range parts {
		options, rest := openMPISyntax.parse(args)
		if rest < len(args) {
			p.Programs = append(p.Programs, args[rest])
		}
		byList := listed
		for _, o := range options {
			switch {
			case o.name == "app" && len(o.values) == 1:
				word, _, joined := strings.Cut(args[o.first], "=")
				words := []string{word, r.TempFile}
				if joined {
					words = []string{word + "=" + r.TempFile}
				}
				parts[i] = splice(args, o, words...)
				p.Args = append([]string{r.Args[0]}, joinContexts(parts)...)
				return r.appFile(p, o.value())
			case len(o.values) == 2 && o.values[0] == envList:
				parts[i] = splice(args, o, "--"+o.name, envList, r.extendEnvList(o.values[1]))
				args, byList = parts[i], true
			}
		}
		if !byList {
			parts[i] = append(r.exports(options, args), args[rest:]...)
		}
	}
	p.Args = append([]string{r.Args[0]}, joinContexts(parts)...)
	p.sweep = sweepOpenMPI(r)
	return p, nil
}

// exports returns the options of a context with ours in front; -x LD_PRELOAD
// of the user is taken into ours.
func (r Request) exports(options []option, args []string) []string {
	preload := r.preload(r.Env)
	var kept []string
	for _, o := range options {
		name, value, assigned := strings.Cut(o.value(), "=")
		if o.name == "x" && name == preloadVariable {
			if assigned {
				preload = JoinPreload(r.Preload, value)
			}
			continue
		}
		kept = append(kept, args[o.first:o.end]...)
	}
	return append(r.exportWords(preload), kept...)
}

// exportWords are our -x options.
func (r Request) exportWords(preload string) []string {
	words := []string{"-x", preloadVariable + "=" + preload}
	for _, name := range names(r.Set) {
		words = append(words, "-x", name)
	}
	return words
}

// extendEnvList adds ours to the value of mca_base_env_list, which Open MPI
// does not accept together with -x.
func (r Request) extendEnvList(list string) string {
	preload := r.preload(r.Env)
	var kept []string
	for _, entry := range strings.Split(list, ";") {
		name, value, assigned := strings.Cut(strings.TrimSpace(entry), "=")
		switch {
		case name == preloadVariable && assigned:
			preload = JoinPreload(r.Preload, value)
		case name != preloadVariable && name != "":
			kept = append(kept, entry)
		}
	}
	kept = append(kept, preloadVariable+"="+preload)
	return strings.Join(append(kept, names(r.Set)...), ";")
}

// appFile rewrites an application file, whose lines are the contexts; Open
// MPI then ignores the rest of its command line.
func (r Request) appFile(p *Plan, name string) (*Plan, error) {
	text, err := r.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("mpirun --app: %w", err)
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		options, rest := openMPISyntax.parse(fields)
		if rest < len(fields) {
			p.Programs = append(p.Programs, fields[rest])
		}
		lines[i] = strings.Join(append(r.exports(options, fields), fields[rest:]...), " ")
	}
	p.Files = map[string][]byte{r.TempFile: []byte(strings.Join(lines, "\n"))}
	p.sweep = sweepOpenMPI(r)
	return p, nil
}

// splice replaces an option by words.
func splice(args []string, o option, words ...string) []string {
	return slices.Concat(args[:o.first], words, args[o.end:])
}

// sweepOpenMPI starts one process per node of the same hosts.
func sweepOpenMPI(r Request) []string {
	words := []string{r.Args[0]}
	var hosts []string
	elsewhere := false
	for _, name := range openMPIVariables {
		value, _ := lookup(r.Env, name)
		elsewhere = elsewhere || value != ""
	}
	for _, args := range contexts(r.Args[1:]) {
		options, _ := openMPISyntax.parse(args)
		for _, o := range options {
			if !slices.Contains(openMPIReach, o.name) || placesRanks(o) {
				continue
			}
			switch o.name {
			case "H", "host":
				hosts = append(hosts, o.value())
				continue
			case "hostfile", "machinefile", "default-hostfile":
				elsewhere = true
			}
			words = append(words, args[o.first:o.end]...)
		}
	}
	if len(hosts) > 0 {
		words = append(words, "-H", strings.Join(hosts, ","))
	} else if !elsewhere {
		return nil
	}
	return append(words, "--map-by", "ppr:1:node", "--bind-to", "none")
}

// placesRanks tells MCA options that would fight with one process per node or
// that hand on variables.
func placesRanks(o option) bool {
	for _, prefix := range []string{"rmaps", "hwloc_base_binding", "orte_tag_output", envList} {
		if strings.HasPrefix(o.value(), prefix) {
			return true
		}
	}
	return false
}
