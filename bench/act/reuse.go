package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/mpitrace/mpitrace/internal/microbench"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// engine carries out the work of a device that is software, as the words and as the
// JSON of a policy.
type engine struct{ words, json string }

// engines: whoever sends, and a thread, over shared memory and over iWARP, in runs of
// their own, for with fewer processors than ranks and threads these take long.
var (
	inline  = engine{"engine=inline", `"engine": "inline"`}
	threads = []engine{
		{"engine=thread", `"engine": "thread"`},
		{"engine=thread,device=iwarp:lo", `"engine": "thread", "device": "iwarp:lo"`},
	}
)

// ranksAndThreads of a job with engine=thread.
const ranksAndThreads = 4

// crowded says, and notes, that a part is not measured because ranks and threads
// would share processors.
func (b *bench) crowded(part string, e engine) bool {
	if e == inline || runtime.NumCPU() >= ranksAndThreads {
		return false
	}
	fmt.Printf("\n%s with %s is not measured: each rank and each thread wants a processor, %d in all, and there are %d\n",
		part, e.words, ranksAndThreads, runtime.NumCPU())
	b.reach(goal{what: part + ", " + e.words, where: here.name})
	return true
}

// reuse: short messages by copy and straight from their buffers.
func reuse(b *bench) error {
	failed := errors.Join(againstNative(b), againstCopies(b, inline))
	for _, e := range threads {
		failed = errors.Join(failed, againstCopies(b, e), pingPong(b, e))
	}
	return failed
}

// againstNative: a spectrum of buffers, the i-th of which is sent from i times, and
// blocking sends one behind the other. Whole jobs are compared, many short ones.
func againstNative(b *bench) error {
	return b.everywhere([]place{here},
		func(p place, m mpijob.MPI) (*microbench.Report, error) {
			return b.observed(p, m, []string{"spectrum", "bandwidth"}, 21, []string{"eager=copy", "eager=reuse", "auto"},
				b.long([]string{"--sizes", "128,256,512,1K,2K,4K,8K,16K", "--modes", "blocking"}, "--buffers", "200", "--limit-ms", "50")...)
		},
		func(p place, m mpijob.MPI, r *microbench.Report) {
			for _, part := range []struct {
				bench, metric, what string
				more                bool // is better
			}{
				{"spectrum", "half_rtt_us", "spectrum, time", false},
				{"bandwidth", "mb_s", "blocking sends, rate", true},
			} {
				for _, row := range rowsOf(r, part.bench, part.metric) {
					what, where := part.what+" against native, ", p.name+", "+m.Name+dims(row)
					b.reach(goal{what: what + "observed", where: where}.of(quotientOf(row.Native, row.Preloaded)))
					for i, policy := range r.Act {
						g := goal{what: what + policy, where: where}
						switch {
						case policy == "eager=copy": // beside the others
						case part.more:
							g.least = ptr(1)
						default:
							g.most = ptr(1)
						}
						b.reach(g.of(quotientOf(row.Native, row.Act[i].Sample)))
					}
				}
			}
		})
}

// againstCopies: what may leave straight from its buffer, and does where that pays,
// against what is always copied, on two communicators of one job. auto finds out by
// itself, eager=reuse is told so.
func againstCopies(b *bench, e engine) error {
	if b.crowded("short messages against copies", e) {
		return nil
	}
	policies, err := b.beside(`"eager": "copy"`, map[string]string{"reuse": e.json + `, "eager": "reuse"`, "auto": e.json})
	if err != nil {
		return err
	}
	return b.everywhere([]place{here},
		func(p place, m mpijob.MPI) (*microbench.Report, error) {
			return b.micro(p, m, []string{"paired"}, 9, []string{policies["reuse"], policies["auto"]},
				b.long([]string{"--sizes", "128,512,1K,4K,8K,16K"}, "--iterations", "20000", "--limit-ms", "600")...)
		},
		func(p place, m mpijob.MPI, r *microbench.Report) {
			for _, row := range rowsOf(r, "paired", "beside_pct") {
				for i, policy := range []string{"eager=reuse", "auto"} {
					g := goal{what: row.Dims[0].Value + ", time against copies, " + policy + "," + e.words, where: p.name + ", " + m.Name + ", " + row.Dims[1].Value, most: ptr(1.01)}
					b.reach(g.of(ofBeside(row.Act[i].Sample)))
				}
			}
		})
}

// dims is what a row is of, as the end of a place.
func dims(row *microbench.Row) string {
	var text strings.Builder
	for _, d := range row.Dims {
		text.WriteString(", " + d.Value)
	}
	return text.String()
}

// pingPong compares what a ping-pong gains by sending straight from its buffers
// with the theoretical improvement, Rashti 2010, equation 5.6: the copy less the new
// overhead, of the latency with copies. Copy and overhead are those that the engine
// measures in a run of the same program.
func pingPong(b *bench, e engine) error {
	if b.crowded("gain of a ping-pong", e) {
		return nil
	}
	policies := []string{"eager=copy," + e.words, "eager=reuse," + e.words}
	const sizes = "128,256,512,1024,2048,4096,8192"
	return b.everywhere([]place{here},
		func(p place, m mpijob.MPI) (*microbench.Report, error) {
			return b.micro(p, m, []string{"latency"}, 7, policies, "--sizes", sizes, "--limit-ms", "500", "--iterations", "10000")
		},
		func(p place, m mpijob.MPI, r *microbench.Report) {
			costs, err := b.copies(p, m, policies[1], sizes)
			if err != nil {
				fmt.Printf("\nwhat copies take in a ping-pong: %v\n", err)
			}
			for _, row := range rowsOf(r, "latency", "half_rtt_us") {
				g := gain(row, costs, p.name+", "+m.Name+dims(row))
				g.what += ", " + policies[1]
				b.reach(g)
			}
		})
}

// gain is the goal of one size: the measured improvement as a share of the
// theoretical one. Where a copy takes no longer than what replaces it, there is none.
func gain(row *microbench.Row, costs []copyCost, where string) goal {
	g := goal{what: "gain of a ping-pong, share of theory (Eq. 5.6)", where: where, least: ptr(0.9)}
	bytes, err := strconv.ParseUint(row.Dims[0].Value, 10, 64)
	copied, straight := row.Act[0].Sample, row.Act[1].Sample
	if err != nil || copied == nil || straight == nil || copied.Median <= 0 {
		return g
	}
	for _, c := range costs {
		if theory := c.ns / 1000 / copied.Median; bytes >= c.from && bytes < c.to && theory > 0 {
			g.got = ptr((1 - straight.Median/copied.Median) / theory)
			g.what += fmt.Sprintf(" of %.1f %%", 100*theory)
		}
	}
	return g
}

// copyCost is what a send of from to less than to bytes is spared by leaving
// straight from its buffer, ns: Cm - V, the mean of so many ranks.
type copyCost struct {
	from, to uint64
	ns       float64
	ranks    int
}

// copies runs the ping-pong once and returns what its ledgers say.
func (b *bench) copies(at place, m mpijob.MPI, policy, sizes string) ([]copyCost, error) {
	dir, err := os.MkdirTemp(b.scratch, "program-")
	if err != nil {
		return nil, err
	}
	if err := mpijob.Compile(m.CC, filepath.Join(dir, "latency"), "-O2", "internal/microbench/programs/latency.c"); err != nil {
		return nil, err
	}
	p := program{name: "latency", place: at, argv: []string{"./latency", "--sizes", sizes, "--iterations", "10000"}}
	if _, err := b.once(p, m, dir, []string{"--act=" + policy}); err != nil {
		return nil, err
	}
	return spared(filepath.Join(dir, "result"))
}

// spared reads the ledgers of a result.
func spared(result string) ([]copyCost, error) {
	files, err := filepath.Glob(filepath.Join(result, "act-*.json"))
	var out []copyCost
	for _, name := range files {
		var ledger struct {
			LookUpNS float64 `json:"look_up_ns"`
			Costs    []struct {
				From, To uint64
				CopyNS   float64 `json:"copy_ns"`
			} `json:"reuse_costs"`
		}
		text, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(text, &ledger)
		}
		if err != nil {
			return nil, err
		}
		for _, c := range ledger.Costs {
			i := slices.IndexFunc(out, func(o copyCost) bool { return o.from == c.From })
			if i < 0 {
				i = len(out)
				out = append(out, copyCost{from: c.From, to: c.To})
			}
			out[i].ranks++
			out[i].ns += (c.CopyNS - ledger.LookUpNS - out[i].ns) / float64(out[i].ranks)
		}
	}
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s: no rank measured a copy", result)
	}
	return out, err
}
