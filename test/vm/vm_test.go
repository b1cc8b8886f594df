package vm

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

var long = flag.Bool("long", false, "ten million random operations, all faults, the whole suite sanitized, and all jobs in act mode")

var operations = flag.Int("operations", 0, "random operations, with faults and without; 0: 100,000, in a long run five million, and with kvm ten")

// suiteSources are those of the conformance suite of c/fabric.
const suiteSources = "test/fabric/programs/*.c"

// sanitizing has the compiler add the address sanitizer, and that of undefined
// behaviour.
var sanitizing = []string{"-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}

// compileSuite builds the conformance suite, as test/fabric does.
func compileSuite(t *testing.T, flags ...string) string {
	t.Helper()
	return compile(t, "conformance", suiteSources, flags...)
}

// compile builds a program with the fabric. Guests see it under the same path.
func compile(t *testing.T, name, pattern string, flags ...string) string {
	t.Helper()
	return compileBeside(t, "gcc", name, pattern, flags...)(t)
}

// compileBeside is compile while the test goes on, for a guest with one processor
// leaves another one idle; what it returns waits for the program.
func compileBeside(t *testing.T, cc, name, pattern string, flags ...string) func(*testing.T) string {
	t.Helper()
	mpijob.Need(t, mpijob.Tools("gcc libibverbs-dev", cc))
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		mpijob.Need(t, mpijob.Missing("infiniband/verbs.h", "apt-get install -y libibverbs-dev"))
	}
	program := filepath.Join(t.TempDir(), name)
	args := append([]string{"-std=gnu11", "-g", "-Wall", "-Wextra", "-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Werror"}, flags...)
	for _, p := range []string{pattern, "c/fabric/*.c", "c/fabric/[^t]*/*.c"} { // c/fabric/tool is a program of its own
		files, err := filepath.Glob(filepath.Join(top, p))
		if err != nil || len(files) == 0 {
			t.Fatalf("no sources %s (%v)", p, err)
		}
		args = append(args, files...)
	}
	made := make(chan error, 1)
	go func() { made <- mpijob.Compile(cc, program, append(args, "-lpthread", "-ldl")...) }()
	result := sync.OnceValue(func() error { return <-made })
	t.Cleanup(func() { _ = result() }) // before its folder is removed
	return func(t *testing.T) string {
		t.Helper()
		if err := result(); err != nil {
			t.Fatal(err)
		}
		return program
	}
}

var line = regexp.MustCompile(`^(ok  |FAIL|skip) ([^(:]+?)(?: \(\d+ ms\)|: no (.*))?$`)

// may is what the suite may leave out: a queue pair of verbs waits for a receive where
// one of iWARP breaks, and memory of another guest cannot be mapped.
var may = []string{"a broken stream", "memory that peers map"}

// conformance runs the suite in a guest and makes a test of each of its lines.
func conformance(t *testing.T, g *Guest, limit time.Duration, args ...string) {
	t.Helper()
	out := g.Run(t, limit, args...)
	ran := 0
	for lines := bufio.NewScanner(bytes.NewReader(out.Stdout)); lines.Scan(); {
		m := line.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		ran++
		t.Run(m[2], func(t *testing.T) {
			if m[1] == "FAIL" || m[1] == "skip" && !slices.Contains(may, m[3]) {
				t.Errorf("%s\n%s", m[0], out.Stderr)
			}
		})
	}
	if ran == 0 || out.Status != 0 && !t.Failed() {
		t.Errorf("%s: %d tests, status %d\n%s%s", strings.Join(args, " "), ran, out.Status, out.Stdout, out.Stderr)
	}
}

// scripted are the faults that a queue pair of verbs can have.
var scripted = []string{"corrupt", "break", "die", "lose", "register", "event", "rate", "starve", "drop", "duplicate", "reorder", "delay", "full"}

// TestVerbs is everything that needs one guest.
func TestVerbs(t *testing.T) {
	t.Parallel() // with TestCache: a guest has one processor
	suite := compileSuite(t, "-O2")
	verbs := compileBeside(t, "gcc", "verbs", "test/vm/programs/verbs.c", "-O2")
	tool := compileBeside(t, "gcc", "mpitrace-fabric", "c/fabric/tool/*.c", "-O2")
	sanitized := compileBeside(t, "gcc", "sanitized", suiteSources, sanitizing...)
	// One processor: Soft-RoCE does not wait for a packet that it copies on another
	// when a queue pair is failed (rxe_qp_error), so memory is written after that.
	g := Boot(t, Options{CPUs: 1})
	size := []string{"operations=300", "queue_pairs=100", "limit=300000"} // under emulation everything is slow
	faults := []string{"break", "lose", "register", "event"}
	if *long {
		size = []string{"operations=1000", "queue_pairs=1000", "limit=300000"}
		faults = scripted
	}
	t.Run("conformance", func(t *testing.T) {
		conformance(t, g, limitOf(30), append([]string{suite, "rxe0"}, size...)...)
	})
	t.Run("second rail, threads", func(t *testing.T) {
		conformance(t, g, limitOf(30), suite, "rxe1", "threads=1", "operations=500", "limit=300000",
			"send sizes", "shared receive queue", "write and flag", "event ping-pong", "datagram echo", "random operations")
	})
	t.Run("faults", func(t *testing.T) {
		conformance(t, g, limitOf(30), suite, "rxe0", rough, "limit=300000", "operations=500",
			"send stream", "write and flag", "read", "datagram echo")
	})
	t.Run("random operations", func(t *testing.T) { randomOperations(t, g, suite) })
	t.Run("random operations, faults", func(t *testing.T) { randomOperations(t, g, suite, rough) })
	for _, fault := range faults {
		t.Run("fault "+fault, func(t *testing.T) {
			conformance(t, g, limitOf(15), suite, "rxe0", "faults=../fabric/testdata/"+fault+".fault", "limit=300000", "fault "+fault)
		})
	}
	t.Run("sanitized", func(t *testing.T) {
		conformance(t, g, limitOf(30), sanitized(t), "rxe0", "operations=300", "queue_pairs=50", "limit=300000",
			"peer killed", "many queue pairs", "failed and reset", "memory given back", "random operations")
	})
	for _, name := range []string{"devices", "permission", "limit", "port", "rails", "mtu", "cut", "threads"} {
		t.Run(name, func(t *testing.T) {
			out := g.Run(t, limitOf(10), verbs(t), name)
			if out.Status != 0 {
				t.Errorf("status %d\n%s", out.Status, out.Stderr)
			}
			t.Logf("%s", out.Stdout)
		})
	}
	t.Run("memory", func(t *testing.T) { memory(t, g, tool(t)) })
	t.Run("modes", func(t *testing.T) { modes(t, g, tool(t)) })
	t.Run("stripes", func(t *testing.T) { stripes(t, tool(t), g) })
}

// rough is the script of faults that everything has to live with.
const rough = "faults=../fabric/testdata/rough.fault"

// randomOperations makes operations against the model, in runs that each have a
// seed of their own. An emulated guest makes 1,000 to 5,000 of them a second.
func randomOperations(t *testing.T, g *Guest, suite string, options ...string) {
	all := *operations
	switch {
	case all != 0:
	case *long && g.KVM:
		all = 10_000_000
	case *long:
		all = 5_000_000
	default:
		all = 100_000
	}
	slice := min(all, 50_000)
	began := time.Now()
	for done := 0; done < all && !t.Failed(); {
		words := append([]string{suite, "rxe0", fmt.Sprintf("operations=%d", slice), fmt.Sprintf("seed=%d", 1+done/slice), "limit=300000"}, options...)
		conformance(t, g, limitOf(30), append(words, "random operations")...)
		done += slice
		t.Logf("%d of %d operations, %.0f a second", done, all, float64(done)/time.Since(began).Seconds())
	}
}

// limitOf ends what hangs; the suite itself gives up when nothing moves.
func limitOf(minutes int) time.Duration {
	if *long {
		return time.Hour
	}
	return time.Duration(minutes) * time.Minute
}

// TestSanitized runs the whole suite under the sanitizers, on two processors.
func TestSanitized(t *testing.T) {
	if !*long {
		return // asked for by make test-vm
	}
	suite := compileSuite(t, sanitizing...)
	g := Boot(t, Options{})
	conformance(t, g, 10*time.Minute, suite, "rxe0", "operations=500", "queue_pairs=100", "limit=300000")
}

// TestThreads: threads that share a context, under the thread sanitizer. The suite has
// one thread in each process over verbs, so that there would be nothing to see.
func TestThreads(t *testing.T) {
	if !*long {
		return // asked for by make test-vm
	}
	program := compile(t, "verbs", "test/vm/programs/verbs.c", "-O1", "-fsanitize=thread")
	g := Boot(t, Options{})
	if out := g.Run(t, limitOf(10), program, "threads"); out.Status != 0 || len(out.Stderr) != 0 {
		t.Errorf("status %d\n%s", out.Status, out.Stderr)
	}
}

// untilDown runs a command until it has sent packets enough, and takes its link
// down then. The status is that of the command.
const untilDown = `"$@" & command=$!
sent() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts; }
first=$(sent)
while kill -0 $command && [ $(sent) -lt $((first + 2000)) ]; do sleep 0.1; done
ip link set eth0 down
wait $command; status=$?; ip link set eth0 up; exit $status`

// linkDown: traffic between two guests, one of which loses its link. Both sides
// end, and say what happened.
func linkDown(t *testing.T, guests [2]*Guest, tool string) {
	args := []string{tool, "bandwidth", "--device", "rxe0", "--size", "64K", "--iterations", "1000000", "--listen", "10.78.0.1:7100"}
	if err := guests[0].Start(5*time.Minute, append([]string{"sh", "-c", untilDown, "sh"}, args...)...); err != nil {
		t.Fatal(err)
	}
	outs := [2]mpijob.Outcome{1: guests[1].Run(t, 5*time.Minute, tool, "--device", "rxe0", "--connect", "10.78.0.1:7100")}
	var err error
	if outs[0], err = guests[0].Wait(); err != nil {
		t.Fatal(err)
	}
	// one that only receives is told by its own limit
	for i, what := range []string{"the peer is gone", "mpitrace fabric: "} {
		if out := outs[i]; out.Status != 1 || !strings.Contains(string(out.Stderr), what) {
			t.Errorf("guest %d: status %d, not 1, or not %q\n%s%s", i, out.Status, what, out.Stdout, out.Stderr)
		}
	}
}

// onlyIPv6 takes the IPv4 address of eth0 away and, where one is told, all others
// for it, and waits until the GIDs of the device follow: it has one that begins
// with $0, and none of IPv4 any more.
const onlyIPv6 = `ip -4 addr flush dev eth0
[ -z "$1" ] || { ip addr flush dev eth0; ip addr add "$1" dev eth0 nodad; }
for i in $(seq 600); do
	gids=$(cat /sys/class/infiniband/rxe0/ports/1/gids/* 2>/dev/null)
	echo "$gids" | grep -q ffff:0a4e || ! echo "$gids" | grep -q "^$0" || exit 0
	sleep 0.1
done
echo "after a minute the device has $gids" >&2; exit 1`

// ipv6: the suite between guests whose rail has no IPv4 address, but one of IPv6: of
// the link only, as each interface gives itself or another one, or good beyond it only.
func ipv6(t *testing.T, guests [2]*Guest, suite string) {
	ownOf := guests[0].Run(t, time.Minute, "ip", "-6", "-o", "addr", "show", "dev", "eth0", "scope", "link")
	own := regexp.MustCompile(`inet6 (fe80:[0-9a-f:]+)/`).FindSubmatch(ownOf.Stdout)
	if own == nil {
		t.Fatalf("the interface has no address of the link\n%s%s", ownOf.Stdout, ownOf.Stderr)
	}
	for _, c := range []struct {
		name, gid, wire string
		addresses       [2]string // in place of all that there are
	}{
		{name: "link-local", gid: "fe80:", wire: fmt.Sprintf("[%s%%eth0]:7000", own[1])},
		{name: "link-local, not of the MAC", gid: "fe80:.*0000:0078:000[12]", wire: "[fe80::78:1%eth0]:7000", addresses: [2]string{"fe80::78:1/64", "fe80::78:2/64"}},
		{name: "global", gid: "fd78:", wire: "[fd78::1]:7000", addresses: [2]string{"fd78::1/64", "fd78::2/64"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, g := range guests {
				if out := g.Run(t, 5*time.Minute, "sh", "-c", onlyIPv6, c.gid, c.addresses[i]); out.Status != 0 {
					t.Fatalf("guest %d: status %d\n%s", i, out.Status, out.Stderr)
				}
			}
			between(t, guests, suite, c.wire, "operations=100", "queue_pairs=20",
				"send sizes", "write and flag", "read", "datagram echo", "random operations")
		})
	}
}

// between runs the suite between two guests.
func between(t *testing.T, guests [2]*Guest, suite, wire string, args ...string) {
	t.Helper()
	side := func(rank int) []string {
		return append([]string{suite, "rxe0", fmt.Sprintf("rank=%d", rank), "wire=" + wire, "limit=300000"}, args...)
	}
	if err := guests[0].Start(limitOf(30), side(0)...); err != nil {
		t.Fatal(err)
	}
	conformance(t, guests[1], limitOf(30), side(1)...)
	if first, err := guests[0].Wait(); err != nil || first.Status != 0 {
		t.Errorf("the first guest: %v, status %d\n%s%s", err, first.Status, first.Stdout, first.Stderr)
	}
}

// TestPair: the suite between two guests, also where they have IPv6 only, and
// messages over two rails from one kernel to the other; in the long run, a link that
// goes down, which TestVerbs has in one guest.
func TestPair(t *testing.T) {
	suite := compileSuite(t, "-O2")
	tool := compileBeside(t, "gcc", "mpitrace-fabric", "c/fabric/tool/*.c", "-O2")
	guests := BootPair(t, Options{CPUs: 1, MiB: 512})
	between(t, guests, suite, "10.78.0.1:7000", "operations=300", "queue_pairs=100")
	t.Run("stripes", func(t *testing.T) { stripes(t, tool(t), guests[:]...) })
	if *long {
		t.Run("link down", func(t *testing.T) { linkDown(t, guests, tool(t)) })
	}
	t.Run("IPv6", func(t *testing.T) { ipv6(t, guests, suite) }) // the last: IPv4 does not come back
}
