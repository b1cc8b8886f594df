package act

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

var (
	long     = flag.Bool("long", false, "random programs: many seeds, and checked messages with faults; messages of more than 2 GiB by every way")
	messages = flag.Uint64("messages", 100_000_000, "checked messages of -long")
	firstJob = flag.Int("first-job", 0, "job that -messages begin with: all before it have run")
	seeds    = flag.Int("seeds", 100, "seeds of -long")
)

// policy is a way for the same messages, and what ranks must have counted of them:
// else they went another way, and nothing is shown.
type policy struct {
	line    string
	counted []string
}

// longStraight lets messages leave from their buffers that are so long that this pays
// wherever a copy and two look-ups are measured.
const longStraight = "eager=reuse,engine=thread,eager-limit=512K,ring=1M"

// policies are protocols, thresholds, devices.
var policies = []policy{
	{"auto", []string{"eager_messages", "ring_messages", "rendezvous_messages"}},
	{"rndv=read,eager-limit=64", []string{"read_messages"}},
	{"rndv=write", []string{"written_messages"}},
	{"rndv=write,eager-limit=1", []string{"written_messages"}},
	{"rndv=receiver,eager-limit=64", []string{"rtr_used"}},
	{"eager-limit=128K", []string{"eager_messages", "ring_messages", "rendezvous_messages"}},
	{"device=nosuch*+iwarp:l*", []string{"ring_messages", "read_messages"}},
	{"device=iwarp:lo,rndv=write,eager-limit=1000", []string{"written_messages"}},
	{longStraight, []string{"zero_copy_messages"}},
	{"device=iwarp:lo,transport=ud-first,rc-peers=1,rc-after=100", []string{"datagram_messages", "fragment_messages", "read_messages"}},
	{"device=shm,transport=ud-first,rndv=write,eager-limit=1000", []string{"datagram_messages", "fragment_messages", "written_messages"}},
}

// withoutRings are policies that need not show messages in rings, whose memory a device
// with faults may refuse for the whole of a job.
func withoutRings(policies []policy) []policy {
	policies = slices.Clone(policies)
	for i := range policies {
		policies[i].counted = slices.DeleteFunc(slices.Clone(policies[i].counted),
			func(name string) bool { return name == "ring_messages" })
	}
	return policies
}

// tally is the sum of what the ranks of jobs have counted, by policy.
type tally map[string]map[string]uint64

// add adds the ledgers of a job.
func (y tally) add(t *testing.T, policy, output string, ranks int) {
	t.Helper()
	sum := y[policy]
	if sum == nil {
		sum = map[string]uint64{}
		y[policy] = sum
	}
	for _, l := range ledgers(t, output, ranks) {
		for name, n := range l.Counts {
			sum[name] += n
		}
	}
}

// check requires of each policy by which jobs ran that its messages went by it; of a
// high eager limit, that what went otherwise was longer.
func (y tally) check(t *testing.T, policies []policy) {
	t.Helper()
	for _, p := range policies {
		sum, ran := y[p.line]
		for _, name := range p.counted {
			if ran && sum[name] == 0 {
				t.Errorf("%s: %s is 0 in all jobs: the test shows nothing", p.line, name)
			}
		}
	}
	if sum := y["eager-limit=128K"]; sum["rendezvous_bytes"] < 128<<10*sum["rendezvous_messages"] {
		t.Errorf("eager-limit=128K: %d bytes in %d messages that were not eager", sum["rendezvous_bytes"], sum["rendezvous_messages"])
	}
}

// rough lets everything go wrong that messages must survive: work that is late,
// queues that are full, memory that cannot be registered, events that are lost;
// and datagrams, which are not sent, or sent twice or out of order.
const rough = "seed 7\ndelay 1/50 3\nfull 1/20\nregister 1/5\nevent 1/20\ndrop 1/50 ud\nduplicate 1/50 ud\nreorder 1/50 ud\n"

// randomJob is the random program of a seed.
type randomJob struct {
	m       mpijob.MPI
	program string
	helpers []string
	ranks   int
	seed    uint64
	args    []string // how many messages, and which
	counts  tally    // its ledgers are added to
}

func (r randomJob) job(env ...string) mpijob.Job {
	argv := append([]string{r.program, fmt.Sprint(r.seed)}, r.args...)
	return mpijob.Job{MPI: r.m, Ranks: r.ranks, Argv: argv, Preload: r.helpers, Env: env}
}

// in runs it in act mode.
func (r randomJob) in(t *testing.T, policy string, env ...string) []string {
	t.Helper()
	job := r.job(env...)
	output := t.TempDir()
	job.Before = []string{tool(t), "run", "--act=" + policy, "--output", output, "--"}
	lines := runProgram(t, job.Command(), r.program+".dir")
	r.counts.add(t, policy, output, r.ranks)
	return lines
}

// compileRandom builds it for an MPI.
func compileRandom(t *testing.T, m mpijob.MPI) (program string, helpers []string) {
	t.Helper()
	mpijob.Need(t, m.Missing())
	dir := t.TempDir()
	program = compile(t, m, dir, "random.c")
	if err := os.Mkdir(program+".dir", 0o755); err != nil {
		t.Fatal(err)
	}
	return program, helpersOf(t, m)
}

// native is what the program says without mpitrace: under Open MPI, since UCX,
// under MPICH 4.0, ends with a segmentation fault in MPI_Imrecv of a synchronous
// message. It does not depend on the library.
func native(t *testing.T, ranks int, seed uint64, args ...string) []string {
	t.Helper()
	m := mpijob.All[0]
	program, _ := compileRandom(t, m)
	r := randomJob{m: m, program: program, ranks: ranks, seed: seed, args: args}
	return runProgram(t, r.job().Command(), program+".dir")
}

// same fails unless both runs said the same, which is that all was right.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	right := 0
	for _, line := range want {
		if strings.HasSuffix(line, ": right") {
			right++
		}
	}
	if right == 0 || 2*right != len(want) {
		t.Fatalf("without mpitrace it said\n%s", strings.Join(want, "\n"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: it said\n%s\nand without mpitrace\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestRandom: random programs, by whatever way their messages go, do what they
// do without mpitrace; every other one with several threads that call MPI.
func TestRandom(t *testing.T) {
	count, length := 2, "1500"
	if *long {
		count, length = *seeds, "20000"
	}
	counts := tally{}
	for i := range count {
		seed, ranks := uint64(i+1), 2+i%3
		args := []string{length}
		if i%2 == 1 {
			args = append(args, "threads")
		}
		var want []string
		for _, m := range mpijob.All {
			if ranks > 2 && m.Name == "mpich" && !*long {
				ranks = 2 // its waits never yield: minutes on few processors
				want = nil
			}
			t.Run(fmt.Sprintf("%s-%d-%d", m.Name, seed, ranks), func(t *testing.T) {
				program, helpers := compileRandom(t, m)
				if want == nil {
					want = native(t, ranks, seed, args...)
				}
				r := randomJob{m, program, helpers, ranks, seed, args, counts}
				for _, p := range policies {
					same(t, p.line, r.in(t, p.line), want)
				}
			})
		}
	}
	if !t.Failed() {
		counts.check(t, policies)
	}
}

// TestRandomFaults: the same with faults in the device, with threads and without.
func TestRandomFaults(t *testing.T) {
	m := mpijob.All[0]
	program, helpers := compileRandom(t, m)
	script := filepath.Join(t.TempDir(), "rough.fault")
	if err := os.WriteFile(script, []byte(rough), 0o644); err != nil {
		t.Fatal(err)
	}
	faults := "MPITRACE_ACT_FAULTS=" + script
	r := randomJob{m, program, helpers, 2, 11, []string{"1500"}, tally{}}
	want := native(t, r.ranks, r.seed, r.args...)
	threads := r
	threads.args = []string{"1500", "threads"}
	wantOfThreads := native(t, r.ranks, r.seed, threads.args...)
	for i, p := range policies {
		if *long || i%2 == 0 {
			same(t, p.line, r.in(t, p.line, faults), want)
		}
		if *long || i%2 == 1 {
			same(t, p.line+", threads", threads.in(t, p.line, faults), wantOfThreads)
		}
	}
	r.counts.check(t, withoutRings(policies))
	if *long {
		testMessages(t, faults)
	}
}

// testMessages sends and checks as many messages as were asked for, by all
// policies in turn, every other job with threads, two jobs by one MPI and two by the
// next, with faults: in jobs that a busy machine ends within the limit, and at least
// one of each policy.
func testMessages(t *testing.T, faults string) {
	var jobs []randomJob
	counts := tally{}
	for _, m := range mpijob.All {
		program, helpers := compileRandom(t, m)
		jobs = append(jobs, randomJob{m: m, program: program, helpers: helpers, ranks: 2, counts: counts})
	}
	each := min(150_000, *messages/uint64(len(policies)))
	fewer := min(15_000, each)
	start, done := time.Now(), uint64(0)
	for i := *firstJob; done < *messages; i++ {
		r := jobs[i/2%len(jobs)]
		r.seed = uint64(1000 + i)
		r.args = []string{fmt.Sprint(min(each, *messages-done)), "short"}
		if i%2 == 1 {
			r.args = []string{fmt.Sprint(min(fewer, *messages-done)), "short", "threads"}
		}
		policy := policies[i%len(policies)].line
		for _, line := range r.in(t, policy, faults) {
			var rank int
			var n uint64
			if _, err := fmt.Sscanf(line, "%d: %d messages", &rank, &n); err == nil {
				done += n
			} else if !strings.HasSuffix(line, ": right") {
				t.Errorf("%s, seed %d, %s: %s", r.m.Name, r.seed, policy, line)
			}
		}
		t.Logf("%d messages, %d jobs, %s, %s %v: %v", done, i+1, r.m.Name, policy, r.args, time.Since(start).Round(time.Second))
		if t.Failed() {
			return
		}
	}
	counts.check(t, policies)
}
