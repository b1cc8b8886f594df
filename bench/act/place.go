package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/internal/microbench"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// place is where the two ranks of a job are.
type place struct {
	name    string
	between bool     // two hosts; else both here, each on a core
	rate    string   // of the link between hosts, as tc writes it; empty: as it is
	cpus    []string // of each host, empty: whatever the system chooses
}

// The link of 1 Gbit/s is what overlap is measured on: a message of 1 MiB takes
// 8.4 ms there and little of a processor.
var (
	here     = place{name: "one host, a core each"}
	between  = place{name: "two hosts, a core each", between: true, cpus: []string{"0", "1"}}
	free     = place{name: "two hosts", between: true}
	paced    = place{name: "two hosts, 1 Gbit/s", between: true, rate: "1gbit"}
	pacedTwo = place{name: "two hosts, 1 Gbit/s, a core each", between: true, rate: "1gbit", cpus: []string{"0", "1"}}
	pacedOne = place{name: "two hosts, 1 Gbit/s, both on one core", between: true, rate: "1gbit", cpus: []string{"0", "0"}}
)

// places are those of micro-benchmarks.
var places = []place{here, between, free, paced, pacedTwo, pacedOne}

// enter makes the hosts what a place wants.
func (b *bench) enter(p place) error {
	if !p.between {
		return nil
	}
	link := b.hosts.Unpace
	if p.rate != "" {
		link = func() error { return b.hosts.Pace(p.rate) }
	}
	return errors.Join(b.hosts.Pin(p.cpus...), link())
}

// launcher are the words that start a rank on each core or host, without their
// number.
func (b *bench) launcher(p place, m mpijob.MPI) []string {
	switch {
	case p.between:
		return b.hosts.Launcher(m, 1)
	case m.Name == "mpich":
		return []string{m.Launcher, "-bind-to", "core"}
	}
	return []string{m.Launcher, "--bind-to", "core"}
}

// start runs a command in a place, in a directory, and waits for it.
func (b *bench) start(p place, dir string, limit time.Duration, argv []string) (mpijob.Outcome, error) {
	env := mpijob.Environ()
	if p.between {
		argv = b.hosts.OnIn(0, dir, argv...)
		env = append(env, "UCX_TLS=tcp,self") // for MPICH: it would share memory between the hosts
	}
	job, err := mpijob.Start(limit, dir, env, argv, nil)
	if err != nil {
		return mpijob.Outcome{}, err
	}
	b.job.Store(job)
	return job.Wait()
}

// jobLimit ends a job of a micro-benchmark that hangs; one takes seconds.
const jobLimit = 40 * time.Second

// micro runs benchmarks of mpitrace bench natively and with policies, prints what
// it says, and returns it. settings are flags of it.
func (b *bench) micro(p place, m mpijob.MPI, names []string, reps int, policies []string, settings ...string) (*microbench.Report, error) {
	return b.observed(p, m, names, reps, policies, append([]string{"--native"}, settings...)...)
}

// observed is micro with runs that are only observed beside the others, for what a call
// costs that is measured is a part of what it costs in act mode.
func (b *bench) observed(p place, m mpijob.MPI, names []string, reps int, policies []string, settings ...string) (*microbench.Report, error) {
	fmt.Printf("\n==== %s, %s\n", p.name, m.Name)
	argv := append([]string{b.mpitrace(), "bench", "--json", "--ranks", "2", "--timeout", jobLimit.String(),
		"--mpirun", strings.Join(b.launcher(p, m), " "), "--cc", m.CC, "--reps", strconv.Itoa(b.repetitions(reps))}, names...)
	for _, policy := range policies {
		argv = append(argv, "--act", policy)
	}
	if b.quick {
		argv = append(argv, "--quick")
	}
	out, err := b.start(p, b.scratch, time.Hour, append(argv, settings...))
	if err != nil {
		return nil, err
	}
	report := &microbench.Report{}
	if json.Unmarshal(out.Stdout, report) != nil {
		return nil, fmt.Errorf("%s: status %d: %s", strings.Join(argv, " "), out.Status, bytes.TrimSpace(out.Stderr))
	}
	for _, res := range report.Benchmarks {
		res.Warnings = nil // of the processors where it was started, which is not where all ranks are
	}
	return report, report.WriteText(os.Stdout)
}

// beside writes policies, by name, with a rule of their own for communicator "beside",
// and returns their files. What tells the two apart is then measured within one job.
func (b *bench) beside(rule string, settings map[string]string) (map[string]string, error) {
	files := map[string]string{}
	for name, of := range settings {
		files[name] = filepath.Join(b.scratch, name+".json")
		text := fmt.Sprintf(`{"schema": 1, "mode": "act", %s, "rules": [{"when": {"communicator": "beside"}, "use": {%s}}]}`, of, rule)
		if err := os.WriteFile(files[name], []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// everywhere runs benchmarks in those of several places that -where chooses, with
// each MPI, and has take look at each report. What fails is left out.
func (b *bench) everywhere(places []place, run func(place, mpijob.MPI) (*microbench.Report, error), take func(place, mpijob.MPI, *microbench.Report)) error {
	var failed error
	for _, p := range places {
		if !strings.Contains(p.name, b.where) {
			continue
		}
		if err := b.enter(p); err != nil {
			return err
		}
		for _, m := range b.mpis {
			report, err := run(p, m)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s, %s: %w", p.name, m.Name, err))
				continue
			}
			take(p, m, report)
			if report.Failed() {
				failed = errors.Join(failed, fmt.Errorf("%s, %s: a benchmark failed", p.name, m.Name))
			}
		}
	}
	return failed
}
