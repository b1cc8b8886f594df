package act

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// limit ends a job that hangs. Nothing depends on how long one takes.
const limit = 10 * time.Minute

// program is one of programs/, and how it is run.
type program struct {
	source string
	args   []string
	ranks  []int
	// native says on which MPI the program does not pass without mpitrace, and
	// why; there only act mode is run.
	native map[string]string
	// memory that all its ranks together need, in MiB; 0: that of any machine.
	memory int
	// policies of act mode; none: what is built in.
	policies []string
	more     []string // besides, with -long
	// counted is what ranks must have counted, by policy: else nothing is shown.
	counted map[string]string
	// left is what each rank leaves to the MPI library, by reason, if there are others.
	left map[string]uint64
}

// receiverFirst is a policy with which most messages are long and their receives
// ask for them.
const receiverFirst = "rendezvous=receiver,eager-limit=256"

// straight has short messages leave from their buffers, as far as that pays.
const straight = "eager=reuse,engine=thread"

// fragments is a policy by which long messages go in datagrams.
const fragments = "device=shm,transport=ud-first,rc-peers=1,rc-after=1000000000"

// datagrams is a policy by which nobody ever gets a connection: acknowledgements and
// fragments are for the other side's thread.
const datagrams = "device=iwarp:lo,transport=ud-first,rc-after=1000000000"

var noCalls = map[string]string{
	"openmpi": "the library moves nothing while nobody calls it",
	"mpich":   "the library moves nothing while nobody calls it",
}

// ways are policies in which other sides have to go on, and by other events.
var ways = []string{"auto", "rndv=write", "device=iwarp:lo", "device=iwarp:lo,transport=ud-first,rc-peers=1", receiverFirst, straight}

// andDatagrams are these, and datagrams.
var andDatagrams = append(slices.Clone(ways), datagrams)

var programs = []program{
	{source: "order.c", ranks: []int{2, 3}},
	{source: "modes.c", ranks: []int{2}},
	{source: "arrays.c", ranks: []int{2}},
	{source: "peeks.c", ranks: []int{2}, policies: []string{"auto", "rndv=write", receiverFirst}},
	{source: "buffers.c", ranks: []int{2}, policies: []string{"auto", "device=iwarp:lo", fragments}, native: map[string]string{
		"openmpi": "Open MPI 4.1 waits for ever in MPI_Buffer_detach after a message that was refused",
	}},
	{source: "probes.c", ranks: []int{2}},
	{source: "types.c", ranks: []int{2}, native: map[string]string{
		"mpich": "MPICH 4.0 finds a message of some nested types too long for the same type",
	}},
	{source: "large.c", ranks: []int{2}},
	{source: "odd.c", ranks: []int{2}},
	{source: "errors.c", ranks: []int{2}, native: map[string]string{
		"openmpi": "Open MPI 4.1 ends with a segmentation fault in MPI_Waitall of a truncated message",
	}},
	{source: "outlived.c", ranks: []int{2}, native: map[string]string{
		"openmpi": "Open MPI 4.1 ends the job for an error on a null communicator",
		"mpich":   "MPICH 4.0 calls the handler of another communicator",
	}},
	{source: "thrown.c", ranks: []int{2}, native: noCalls, policies: []string{"auto", "device=iwarp:lo"}},
	{source: "touched.c", ranks: []int{2}, policies: []string{"auto", "rndv=read,device=iwarp:lo", "rndv=write,device=iwarp:lo", receiverFirst, "eager=reuse,engine=thread,device=iwarp:lo", "device=shm,transport=ud-first,rc-peers=1"}},
	{source: "files.c", args: []string{"wait"}, ranks: []int{2}},
	{source: "files.c", args: []string{"test"}, ranks: []int{2}},
	{source: "paused.c", ranks: []int{2}},
	{source: "shared.c", ranks: []int{2}, policies: []string{"auto", "device=iwarp:lo"}, native: map[string]string{
		"openmpi": "who waits keeps the processor until it is taken away",
		"mpich":   "who waits keeps the processor until it is taken away",
	}},
	{source: "comms.c", ranks: []int{1, 2, 4}, left: map[string]uint64{ // not_ours
		"communicators_by_idup": 1, "communicators_of_library": 1, "intercommunicators": 2, "messages_of_communicators": 9, "bytes_of_communicators": 36,
	}},
	{source: "threads.c", ranks: []int{2}, policies: ways},
	{source: "freed.c", ranks: []int{2}, policies: []string{"auto", "device=iwarp:lo", receiverFirst}},
	{source: "freed.c", args: []string{"fails"}, ranks: []int{2}, native: map[string]string{
		"openmpi": "Open MPI 4.1 loses the handler of a communicator that was freed",
		"mpich":   "MPICH 4.0 ends with a segmentation fault, it looks for that handler",
	}},
	{source: "callbacks.c", ranks: []int{2}, policies: []string{"auto", "rndv=write,device=iwarp:lo", receiverFirst}},
	{source: "null.c", ranks: []int{2}},
	{source: "status.c", ranks: []int{2}},
	{source: "many.c", ranks: []int{2}, native: map[string]string{
		"openmpi": "Open MPI 4.1 receives them in another order",
	}},
	{source: "finalize.c", ranks: []int{2}},
	{source: "first.c", ranks: []int{2}},
	{source: "first.c", ranks: []int{2}, policies: []string{receiverFirst}, counted: map[string]string{receiverFirst: "rtr_used"}},
	{source: "first.c", args: []string{"lands"}, ranks: []int{2}, policies: []string{receiverFirst}, native: noCalls, counted: map[string]string{receiverFirst: "rtr_used"}},
	{source: "order.c", ranks: []int{2}, policies: []string{receiverFirst}},
	{source: "order.c", ranks: []int{2}, policies: []string{straight}},
	{source: "modes.c", ranks: []int{2}, policies: []string{straight}},
	{source: "progress.c", args: []string{"send"}, ranks: []int{2}, policies: andDatagrams, counted: map[string]string{datagrams: "fragment_messages"}},
	{source: "progress.c", args: []string{"late"}, ranks: []int{2}, policies: ways},
	{source: "progress.c", args: []string{"flood"}, ranks: []int{2}, policies: andDatagrams, counted: map[string]string{datagrams: "datagram_messages"}},
	{source: "progress.c", args: []string{"owe"}, ranks: []int{2}, policies: andDatagrams, counted: map[string]string{datagrams: "fragment_messages"}},
	{source: "progress.c", args: []string{"queue"}, ranks: []int{2}, policies: andDatagrams, counted: map[string]string{datagrams: "fragment_messages"}},
	{source: "progress.c", args: []string{"stall"}, ranks: []int{2}, policies: ways, counted: map[string]string{
		"auto": "credit_stalls", "rndv=write": "credit_stalls", "device=iwarp:lo": "credit_stalls", straight: "zero_copy_messages",
	}},
	{source: "progress.c", args: []string{"revoke"}, ranks: []int{2}, policies: []string{receiverFirst, receiverFirst + ",device=iwarp:lo"}, counted: map[string]string{
		receiverFirst: "rtr_revoked", receiverFirst + ",device=iwarp:lo": "rtr_revoked",
	}},
	{source: "progress.c", args: []string{"native"}, ranks: []int{2}, policies: ways},
	{source: "progress.c", args: []string{"iprobe"}, ranks: []int{2}, policies: ways},
	{source: "progress.c", args: []string{"end"}, ranks: []int{2}, policies: ways, native: map[string]string{
		"mpich": "MPICH 4.2 fails in MPI_Finalize for a message that nobody received",
	}},
	{source: "long.c", ranks: []int{2}, memory: 5000, native: map[string]string{
		"openmpi": "Open MPI 4.1 writes behind the room of a receive that such a message does not fit into",
	}, policies: []string{"auto"}, more: []string{"rndv=write", "device=iwarp:lo", fragments}, counted: map[string]string{
		"auto": "rendezvous_messages", "rndv=write": "written_messages", "device=iwarp:lo": "read_messages", fragments: "fragment_messages",
	}},
	{source: "legacy.f", ranks: []int{2}},
	{source: "modern.f90", ranks: []int{2}},
}

// compile builds a program for m in dir and returns its path.
func compile(t *testing.T, m mpijob.MPI, dir, source string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("programs", source))
	if err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(dir, strings.ReplaceAll(source, ".", "_"))
	compiler, args := m.CC, []string{"-O1", "-g", "-w", "-pthread", "-rdynamic", path}
	if filepath.Ext(source) != ".c" {
		compiler, args = m.FC, []string{"-O1", "-g", "-w", "-J", dir, path}
	}
	if err := mpijob.Compile(compiler, target, args...); err != nil {
		t.Fatal(err)
	}
	return target
}

// line is one of a rank; libraries print others.
var line = regexp.MustCompile(`(?m)^ *(\d+: .*)$`)

// said is what the ranks printed, without the order in which they were heard.
func said(out []byte) []string {
	var lines []string
	for _, found := range line.FindAllSubmatch(out, -1) {
		lines = append(lines, string(found[1]))
	}
	slices.Sort(lines)
	return lines
}

// runProgram starts the program by command and gives its lines.
func runProgram(t *testing.T, command []string, dir string) []string {
	t.Helper()
	return said(runActing(t, command, dir).Stdout)
}

// runActing is what the program leaves behind, which has to act, and to succeed.
func runActing(t *testing.T, command []string, dir string) mpijob.Outcome {
	t.Helper()
	out := finished(t, command, dir)
	if strings.Contains(string(out.Stderr), "act mode is off") {
		t.Fatalf("%q did not act:\n%s", command, out.Stderr)
	}
	return out
}

// finished is what the program leaves behind, which has to succeed.
func finished(t *testing.T, command []string, dir string) mpijob.Outcome {
	t.Helper()
	p, err := mpijob.Start(limit, dir, mpijob.Environ(), command, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Wait()
	switch {
	case err != nil:
		t.Fatal(err)
	case out.TimedOut:
		t.Fatalf("waited %v for the end of %q\n%s%s", limit, command, out.Stdout, out.Stderr)
	case out.Status != 0:
		t.Fatalf("%q: status %d\n%s%s", command, out.Status, out.Stdout, out.Stderr)
	}
	return out
}

// tool is the command mpitrace.
func tool(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../build/mpitrace")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run make build first", err)
	}
	return path
}

// helpersOf are the libraries that an MPI needs here.
func helpersOf(t *testing.T, m mpijob.MPI) []string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..")
	helpers, err := m.Helpers(t.TempDir())
	t.Chdir(here)
	if err != nil {
		t.Fatal(err)
	}
	return helpers
}

// TestPrograms runs each program without mpitrace and in act mode, where it must
// say the same, which is that everything was right.
func TestPrograms(t *testing.T) {
	command := tool(t)
	for _, m := range mpijob.All {
		t.Run(m.Name, func(t *testing.T) {
			mpijob.Need(t, m.Missing())
			helpers, dir := helpersOf(t, m), t.TempDir()
			for _, p := range programs {
				for _, ranks := range p.ranks {
					if ranks > 2 && m.Name == "mpich" {
						continue // its waits never yield: minutes on few processors
					}
					name := strings.Join(append([]string{p.source}, p.args...), "_")
					if len(p.policies) == 1 && p.more == nil {
						name += "_" + p.policies[0]
					}
					t.Run(name+"-"+strconv.Itoa(ranks), func(t *testing.T) {
						mpijob.Need(t, mpijob.Memory(p.memory))
						testProgram(t, m, p, ranks, helpers, dir, command)
					})
				}
			}
		})
	}
}

func testProgram(t *testing.T, m mpijob.MPI, p program, ranks int, helpers []string, dir, command string) {
	argv := append([]string{compile(t, m, dir, p.source)}, p.args...)
	job := mpijob.Job{MPI: m, Ranks: ranks, Argv: argv, Preload: helpers}
	var want []string
	for r := range ranks {
		want = append(want, fmt.Sprintf("%d: right", r))
	}
	if _, fails := p.native[m.Name]; !fails {
		if got := runProgram(t, job.Command(), dir); !slices.Equal(got, want) {
			t.Fatalf("without mpitrace it said\n%s", strings.Join(got, "\n"))
		}
	}
	if p.policies == nil {
		p.policies = []string{"auto"}
	}
	if *long {
		p.policies = slices.Concat(p.policies, p.more)
	}
	for _, policy := range p.policies {
		output := t.TempDir()
		job.Before = []string{command, "run", "--act=" + policy, "--output", output, "--"}
		if got := runProgram(t, job.Command(), dir); !slices.Equal(got, want) {
			t.Errorf("in act mode, %s, it said\n%s", policy, strings.Join(got, "\n"))
		}
		if name := p.counted[policy]; name != "" && counted(t, output, name, ranks) == 0 {
			t.Errorf("in act mode, %s, %s is 0 on all ranks: the test shows nothing", policy, name)
		}
		if p.left != nil && ranks > 1 {
			for _, l := range ledgers(t, output, ranks) {
				if !maps.Equal(l.Left, p.left) {
					t.Errorf("in act mode, %s, rank %d of %d left %v to the library, want %v", policy, l.Rank, ranks, l.Left, p.left)
				}
			}
		}
	}
}

// TestWrapped: ranks that a script starts, and not the launcher, act as one world.
func TestWrapped(t *testing.T) {
	for _, m := range mpijob.All {
		t.Run(m.Name, func(t *testing.T) {
			mpijob.Need(t, m.Missing())
			dir, output := t.TempDir(), t.TempDir()
			job := mpijob.Job{MPI: m, Ranks: 2, Preload: helpersOf(t, m),
				Argv:   []string{"sh", "-c", `sh -c "$0; exit \$?"; exit $?`, compile(t, m, dir, "order.c")},
				Before: []string{tool(t), "run", "--act=auto", "--output", output, "--"}}
			if got := runProgram(t, job.Command(), dir); !slices.Equal(got, []string{"0: right", "1: right"}) {
				t.Errorf("behind a script it said\n%s", strings.Join(got, "\n"))
			}
			ledgers(t, output, 2)
		})
	}
}

// counted is the sum of a count over the ranks of a job.
func counted(t *testing.T, output, name string, ranks int) uint64 {
	t.Helper()
	var sum uint64
	for _, l := range ledgers(t, output, ranks) {
		sum += l.Counts[name]
	}
	return sum
}
