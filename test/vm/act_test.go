package vm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// way is one way of messages in act mode, to which a policy holds a program.
type way struct {
	name, policy string
	program      []string // a source in test/, and arguments
	kept         bool     // it needs registrations that are kept
	mpis         []string // in CI, where none depends on what a copy costs; with -long all
	counted      []string // what its messages count as
	never        []string // and what they do not
	saves        bool     // what leaves straight from its buffer is copied by its receiver alone
	pinned       int      // KiB that a rank may pin, too few for its messages; 0: as many as it wants
}

var (
	random   = []string{"act/programs/random.c", "3", "400"}
	order    = []string{"act/programs/order.c"}
	receives = []string{"act/programs/first.c"}
	straight = []string{"runtime/testdata/straight.c"}
	gone     = []string{"runtime/testdata/cache.c", "gone"}
	sends    = []string{"act/programs/progress.c", "send"}
	queues   = []string{"act/programs/progress.c", "queue"}
)

var ways = []way{
	{name: "read", policy: "rndv=read,eager-limit=1000", program: random, mpis: []string{"openmpi"}, counted: []string{"read_messages"}, never: []string{"written_messages", "fragment_messages"}},
	{name: "write", policy: "rndv=write,eager-limit=1000", program: random, mpis: []string{"mpich"}, counted: []string{"written_messages"}, never: []string{"read_messages", "fragment_messages"}},
	{name: "receiver", policy: "rndv=receiver,eager-limit=256", program: receives, mpis: []string{"mpich"}, counted: []string{"rtr_used"}},
	{name: "ring", policy: "eager-limit=64K", program: order, mpis: []string{"mpich"}, counted: []string{"ring_messages"}},
	{name: "datagrams", policy: "transport=ud-first,rc-after=1000000", program: random, mpis: []string{"openmpi"}, counted: []string{"datagram_messages"}, never: []string{"read_messages", "written_messages", "ring_messages"}},
	{name: "datagrams first", policy: "transport=ud-first,rc-after=100", program: random, counted: []string{"datagram_messages"}},
	{name: "straight", policy: "eager=reuse", program: straight, kept: true, counted: []string{"zero_copy_messages", "ring_messages"}, saves: true},
	{name: "kept", policy: "cache=on", program: gone, kept: true, counted: []string{"cache_hits"}},
	{name: "checked", policy: "verify=1,rndv=read+write,eager-limit=1000", program: random, counted: []string{"verified_messages"}},
	{name: "progress of one", policy: "rndv=read", program: sends, counted: []string{"read_messages"}},
	{name: "progress of many", policy: "rndv=read+write", program: queues, counted: []string{"read_messages"}},
	{name: "little pinned", policy: "rndv=read", program: sends, pinned: 4096, counted: []string{"fragment_messages"}},
}

// ours keeps the messages of the MPI libraries themselves off the devices.
var ours = []string{"OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader", "UCX_TLS=self,sm"}

// thenCounts runs a job whose result is in $0, and prints how many packets rxe0
// has sent meanwhile and what the ranks have counted.
const thenCounts = `sent() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts; }
before=$(sent)
"$@" || exit
echo packets $(($(sent) - before)); cat "$0"/act-*.json`

// TestAct: MPI programs whose messages mpitrace carries over an RDMA device, by
// each way there is: they say what they say without it, and the messages went
// that way. With -long also where the helper watches memory, on one processor for
// the reason that TestCache has.
func TestAct(t *testing.T) {
	tool, err := filepath.Abs(top + "/build/mpitrace")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(tool); err != nil {
		t.Fatalf("%v: run make build first", err)
	}
	dir, jobs := t.TempDir(), []actJob{}
	for _, m := range mpijob.All {
		mpijob.Need(t, m.Missing())
		helpers := helpersOf(t, m, dir)
		for _, w := range ways {
			if *long || slices.Contains(w.mpis, m.Name) {
				jobs = append(jobs, actJob{w, mpijob.Job{
					MPI: m, Ranks: 2, Preload: helpers, Env: ours,
					Argv:   append([]string{compileMPI(t, m, dir, w.program[0])}, w.program[1:]...),
					Before: []string{tool, "run", "--act=device=rxe0," + w.policy},
				}})
			}
		}
	}
	g := Boot(t, Options{})
	for _, j := range jobs {
		if !j.kept || j.MPI.Name == "mpich" { // which brings libucm, to watch memory
			t.Run(j.MPI.Name+", "+j.name, func(t *testing.T) { j.run(t, g, natively(t, dir, j.program)) })
		}
	}
	if !*long {
		return
	}
	g = Boot(t, Options{CPUs: 1})
	for _, j := range jobs {
		j.name += ", watched"
		j.Before = append(j.Before, "--memory-monitor")
		t.Run(j.MPI.Name+", "+j.name, func(t *testing.T) { j.run(t, g, natively(t, dir, j.program)) })
	}
}

// compileMPI compiles a program of test/ for an MPI, once.
func compileMPI(t *testing.T, m mpijob.MPI, dir, source string) string {
	t.Helper()
	target := filepath.Join(dir, strings.TrimSuffix(filepath.Base(source), ".c")+"."+m.Name)
	if _, err := os.Stat(target); err == nil {
		return target
	}
	if err := mpijob.Compile(m.CC, target, "-O1", "-g", "-w", "-pthread", filepath.Join("..", source)); err != nil {
		t.Fatal(err)
	}
	return target
}

// helpersOf are the libraries that an MPI needs where processors are few.
func helpersOf(t *testing.T, m mpijob.MPI, dir string) []string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(top)
	helpers, err := m.Helpers(dir)
	t.Chdir(here)
	if err != nil {
		t.Fatal(err)
	}
	return helpers
}

// natively is what a program says on this machine, without mpitrace; under Open
// MPI, for MPICH 4.0 has errors that random.c finds.
func natively(t *testing.T, dir string, program []string) []string {
	t.Helper()
	m := mpijob.All[0]
	argv := append([]string{compileMPI(t, m, dir, program[0])}, program[1:]...)
	out, err := mpijob.Run(mpijob.Job{MPI: m, Ranks: 2, Argv: argv, Timeout: 5 * time.Minute})
	if err != nil || out.Status != 0 || out.TimedOut {
		t.Fatalf("without mpitrace: %v, status %d\n%s%s", err, out.Status, out.Stdout, out.Stderr)
	}
	return said(out.Stdout)
}

// said is what the ranks printed, in any order.
func said(out []byte) []string {
	lines := regexp.MustCompile(`(?m)^\d+: .*$`).FindAllString(string(out), -1)
	slices.Sort(lines)
	return lines
}

// actJob is a program held to a way, on an MPI.
type actJob struct {
	way
	mpijob.Job
}

func (j actJob) run(t *testing.T, g *Guest, want []string) {
	result := "/run/" + strings.ReplaceAll(j.MPI.Name+" "+j.name, " ", "")
	j.Before = append(j.Before, "--output", result, "--")
	if j.pinned > 0 {
		limited := `ulimit -l "$0"; exec setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock "$@"` // root has no limit otherwise
		j.Argv = append([]string{"sh", "-c", limited, fmt.Sprint(j.pinned)}, j.Argv...)
	}
	began := time.Now()
	out := g.Run(t, limitOf(10), append([]string{"sh", "-c", thenCounts, result}, j.Command()...)...)
	printed, counts, found := bytes.Cut(out.Stdout, []byte("packets "))
	if out.Status != 0 || !found || bytes.Contains(out.Stderr, []byte("act mode is off")) {
		t.Fatalf("status %d\n%s%s", out.Status, out.Stdout, out.Stderr)
	}
	if got := said(printed); !slices.Equal(got, want) {
		t.Errorf("it said\n%s\nand without mpitrace\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	packets, sum := readCounts(t, counts)
	sent := sum["eager_messages"] + sum["rendezvous_messages"]
	t.Logf("%.1f s, %d messages in %d packets", time.Since(began).Seconds(), sent, packets)
	if sent == 0 || packets < sent {
		t.Errorf("%d messages did not travel in %d packets\n%s", sent, packets, out.Stderr)
	}
	for _, name := range j.counted {
		t.Logf("%s: %d", name, sum[name])
		if sum[name] == 0 {
			t.Errorf("%s: 0 of %v\n%s", name, sum, out.Stderr)
		}
	}
	if j.saves {
		copied := 2*sum["eager_bytes"] + sum["unexpected_bytes"] // by the sender, the receiver, and into a queue
		t.Logf("%d bytes copied, %d with none straight: %d fewer for each of %d such messages", sum["copied_bytes"], copied,
			sum["zero_copy_bytes"]/max(1, sum["zero_copy_messages"]), sum["zero_copy_messages"])
		if want := copied - sum["zero_copy_bytes"]; sum["copied_bytes"] != want {
			t.Errorf("%d bytes copied, want %d: %v", sum["copied_bytes"], want, sum)
		}
	}
	if (sum["registrations_refused"] > 0) != (j.pinned > 0) {
		t.Errorf("%d registrations refused\n%s", sum["registrations_refused"], out.Stderr)
	}
	for _, name := range append(j.never, "wrong_messages") {
		if sum[name] != 0 {
			t.Errorf("%s: %d\n%s", name, sum[name], out.Stderr)
		}
	}
}

// readCounts reads what thenCounts prints behind "packets": their number, and the
// ledgers of the ranks, which are added up.
func readCounts(t *testing.T, text []byte) (packets uint64, sum map[string]uint64) {
	t.Helper()
	in, ranks := bytes.NewReader(text), 0
	if _, err := fmt.Fscanln(in, &packets); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	sum = map[string]uint64{}
	for decoder := json.NewDecoder(in); ; ranks++ {
		var ledger struct{ Counts map[string]uint64 }
		if err := decoder.Decode(&ledger); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		for name, n := range ledger.Counts {
			sum[name] += n
		}
	}
	if ranks != 2 {
		t.Errorf("%d ledgers of 2 ranks", ranks)
	}
	return packets, sum
}
