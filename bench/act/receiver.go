package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mpitrace/mpitrace/internal/microbench"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// asks is the policy of receives that ask first; always is without what makes them
// stop where it does not pay, but for mispredictions in a row.
const (
	asks   = "rndv=receiver"
	always = "rndv=receiver,rtr-sample=1000000"
)

// receiver: receives that ask first. Overlap in either order of arrival, programs
// that exchange with neighbours, what it costs where each request is crossed, and
// how many bytes it adds.
func receiver(b *bench) error {
	for _, part := range []func(*bench) error{forcedOrder, exchanges, crossings, extraVolume} {
		if err := part(b); err != nil {
			return err
		}
	}
	return nil
}

func forcedOrder(b *bench) error {
	for _, first := range []string{"self", "peer"} {
		err := b.everywhere([]place{pacedTwo},
			func(p place, m mpijob.MPI) (*microbench.Report, error) {
				return b.micro(p, m, []string{"overlap-send", "overlap-recv"}, 3, []string{"rndv=read-event", asks}, "--methods", "sweep", "--peer", "sleep",
					"--compute", "cpu", "--first", first, "--limit-ms", "300", "--iterations", "2000", "--sizes", "1M", "--delays", "16800")
			},
			func(p place, m mpijob.MPI, r *microbench.Report) {
				for _, side := range []string{"overlap-send", "overlap-recv"} {
					for _, row := range rowsOf(r, side, "overlap_pct") {
						for i, policy := range r.Act {
							g := goal{what: side + ", W/T, " + first + " first, " + policy, where: p.name + ", " + m.Name, got: share(row.Act[i].Sample), native: share(row.Native)}
							if policy == asks && side == "overlap-recv" {
								g.least = ptr(0.8)
							}
							b.reach(g)
						}
					}
				}
			})
		if err != nil {
			return err
		}
	}
	return nil
}

func exchanges(b *bench) error {
	return b.everywhere([]place{pacedTwo},
		func(p place, m mpijob.MPI) (*microbench.Report, error) {
			return b.micro(p, m, []string{"exchange"}, 3, []string{"rndv=read-event", asks, "auto"}, "--sizes", "128K", "--limit-ms", "1500", "--iterations", "3000")
		},
		func(p place, m mpijob.MPI, r *microbench.Report) {
			for _, row := range rowsOf(r, "exchange", "turn_us") {
				for i, policy := range r.Act {
					what := fmt.Sprintf("exchange model %s, W %s, time against native, %s", row.Dims[0].Value, row.Dims[2].Value, policy)
					b.reach(goal{what: what, where: p.name + ", " + m.Name}.of(quotientOf(row.Native, row.Act[i].Sample)))
				}
			}
		})
}

// crossings compares with what asks nobody, not with the MPI library.
func crossings(b *bench) error {
	const nobody = `"rendezvous": "read-event"`
	policies, err := b.beside(nobody, map[string]string{"asks": `"rendezvous": "receiver"`, "always": `"rendezvous": "receiver", "rtr_sample": 1000000`})
	if err != nil {
		return err
	}
	return b.everywhere([]place{here, between},
		func(p place, m mpijob.MPI) (*microbench.Report, error) {
			return b.micro(p, m, []string{"crossing"}, 7, []string{policies["asks"], policies["always"]}, "--sizes", "1K,128K", "--limit-ms", "400", "--iterations", "20000")
		},
		func(p place, m mpijob.MPI, r *microbench.Report) {
			for _, row := range rowsOf(r, "crossing", "beside_pct") {
				short := row.Dims[1].Value == "1024"
				if short != (row.Dims[0].Value == "large") {
					continue // nobody would ask; and the same twice
				}
				what, most := "long messages", ptr(1.03)
				if short {
					what, most = "eager messages", ptr(1.01)
				}
				for i, policy := range []string{asks, always} {
					g := goal{what: "crossed requests, " + what + ", time against none, " + policy, where: p.name + ", " + m.Name, most: most}
					b.reach(g.of(ofBeside(row.Act[i].Sample)))
				}
			}
		})
}

// extraVolume is of a stencil whose rows, of 80,000 bytes, are longer than what is eager
// between two hosts.
func extraVolume(b *bench) error {
	p := program{name: "stencil", place: between, prepare: stencil, argv: []string{"./heat", "-n", "10000", "-s", "200"}}
	if err := b.enter(p.place); err != nil {
		return err
	}
	for _, m := range b.mpis {
		dir, err := os.MkdirTemp(b.scratch, "program-")
		if err == nil {
			err = p.prepare(b, m, dir)
		}
		if err == nil {
			_, err = b.once(p, m, dir, []string{"--act=" + asks})
		}
		if err != nil {
			return err
		}
		extra, all, err := volume(filepath.Join(dir, "result"))
		if err != nil {
			return err
		}
		b.reach(goal{what: "bytes of requests in vain, share of all", where: p.name + ", " + p.place.name + ", " + m.Name, got: ptr(extra / all), most: ptr(0.0004)})
	}
	return nil
}

// volume sums up the ledgers of a result.
func volume(result string) (extra, all float64, err error) {
	files, err := filepath.Glob(filepath.Join(result, "act-*.json"))
	for _, name := range files {
		var ledger struct{ Counts map[string]float64 }
		text, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(text, &ledger)
		}
		if err != nil {
			return 0, 0, err
		}
		extra += ledger.Counts["rtr_extra_bytes"]
		all += ledger.Counts["eager_bytes"] + ledger.Counts["rendezvous_bytes"]
	}
	if err == nil && all == 0 {
		err = fmt.Errorf("%s: no message was carried by %s", result, strings.Join(files, ", "))
	}
	return extra, all, err
}
