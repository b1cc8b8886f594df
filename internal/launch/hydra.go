package launch

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// hydraSyntax lists the options of Hydra's mpiexec that take values, with
// those of Intel MPI and MVAPICH.
var hydraSyntax = syntax{words: table(`
	genvlist envlist f hostfile machinefile machine hosts host wdir configfile
	n np launcher launcher-exec bootstrap bootstrap-exec rmk topolib bind-to
	map-by membind demux iface ppn perhost grr prepend-pattern
	outfile-pattern errfile-pattern outfile errfile nameserver localhost usize
	gpus-per-proc gpu-subdevs-per-proc umask path hostos branch-count
	pmi-port-range localroot arch soft ckpoint-interval ckpoint-prefix
	ckpoint-num ckpointlib trace-pt2pt s`,
	`genv env`)}

// hydraReach are the options that say how other nodes are reached.
var hydraReach = []string{
	"launcher", "launcher-exec", "bootstrap", "bootstrap-exec", "rmk", "iface",
	"localhost", "pmi-port", "disable-hostname-propagation",
}

// makeHydra hands everything on by -genv, which reaches all programs of the
// command line and of a -configfile but neither mpiexec nor its proxies.
func makeHydra(r Request) (*Plan, error) {
	p := &Plan{Env: r.Env}
	parts := contexts(r.Args[1:])
	global := r.preload(r.Env)
	for i, args := range parts {
		options, rest := hydraParse(args)
		if rest < len(args) {
			p.Programs = append(p.Programs, args[rest])
		}
		var kept []string
		for _, o := range options {
			name, value := o.assignment()
			switch {
			case name == preloadVariable && o.name == "genv":
				global = JoinPreload(r.Preload, value)
			case name == preloadVariable:
				kept = append(kept, "-env", preloadVariable, JoinPreload(r.Preload, value))
			default:
				kept = append(kept, args[o.first:o.end]...)
			}
		}
		parts[i] = append(kept, args[rest:]...)
	}
	ours := []string{r.Args[0], "-genv", preloadVariable, global}
	for _, entry := range r.Set {
		name, value, _ := strings.Cut(entry, "=")
		ours = append(ours, "-genv", name, value)
	}
	p.Args = append(ours, joinContexts(parts)...)
	p.sweep = sweepHydra(r)
	return p, nil
}

// hydraParse reads the options of one context; -env and -genv have one value
// when it is an assignment.
func hydraParse(args []string) ([]option, int) {
	short := syntax{words: map[string]int{"env": 1, "genv": 1}}
	var all []option
	at := 0
	for at < len(args) {
		options, rest := hydraSyntax.parse(args[at:])
		cut := false
		for _, o := range options {
			if (o.name == "env" || o.name == "genv") && strings.Contains(o.value(), "=") && len(o.values) == 2 {
				o = short.long(args[at:], o.first)
				cut = true
			}
			o.first += at
			o.end += at
			all = append(all, o)
			if cut {
				at = o.end
				break
			}
		}
		if !cut {
			return all, at + rest
		}
	}
	return all, at
}

// assignment is the variable that -env or -genv sets, empty for other options.
func (o option) assignment() (name, value string) {
	if (o.name != "env" && o.name != "genv") || len(o.values) == 0 {
		return "", ""
	}
	if len(o.values) == 2 {
		return o.values[0], o.values[1]
	}
	name, value, _ = strings.Cut(o.values[0], "=")
	return name, value
}

// sweepHydra starts one process on each host that the command line, a host
// file or the batch system names.
func sweepHydra(r Request) []string {
	words := []string{r.Args[0]}
	var hosts []string
	for _, args := range contexts(r.Args[1:]) {
		options, _ := hydraParse(args)
		for _, o := range options {
			switch {
			case slices.Contains(hydraReach, o.name):
				words = append(words, args[o.first:o.end]...)
			case o.name == "hosts" || o.name == "host":
				hosts = append(hosts, strings.Split(o.value(), ",")...)
			case o.name == "f" || o.name == "hostfile" || o.name == "machinefile" || o.name == "machine":
				hosts = append(hosts, r.hostFile(o.value())...)
			}
		}
	}
	for _, name := range []string{"HYDRA_HOST_FILE", "PBS_NODEFILE", "PE_HOSTFILE", "LSB_DJOB_HOSTFILE"} {
		if file, ok := lookup(r.Env, name); ok && len(hosts) == 0 {
			hosts = r.hostFile(file)
		}
	}
	if list, ok := lookup(r.Env, "LSB_MCPU_HOSTS"); ok && len(hosts) == 0 {
		for pair := range slices.Chunk(strings.Fields(list), 2) { // host and slots
			hosts = append(hosts, pair[0])
		}
	}
	if hosts = unique(hosts); len(hosts) > 0 {
		return append(words, "-hosts", strings.Join(hosts, ","), "-ppn", "1", "-n", strconv.Itoa(len(hosts)))
	}
	if nodes, ok := lookup(r.Env, "SLURM_JOB_NUM_NODES"); ok {
		return append(words, "-ppn", "1", "-n", nodes)
	}
	return nil
}

// hostFile returns the hosts that a file names, none if it cannot be read:
// the launcher will say so.
func (r Request) hostFile(name string) []string {
	text, err := r.ReadFile(filepath.Clean(name))
	if err != nil {
		return nil
	}
	var hosts []string
	for _, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if fields := strings.Fields(line); len(fields) > 0 {
			hosts = append(hosts, fields[0])
		}
	}
	return hosts
}

// unique drops the process counts of hosts (node7:4) and repeated names.
func unique(hosts []string) []string {
	var out []string
	for _, host := range hosts {
		host, _, _ = strings.Cut(host, ":")
		if host != "" && !slices.Contains(out, host) {
			out = append(out, host)
		}
	}
	return out
}
