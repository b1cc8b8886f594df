package fabric

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpitrace/mpitrace/test/hosts"
)

var turns = flag.Int("turns", 2, "turns of the ping-pong between two hosts; make bench-fabric takes 501")

// What hosts gives its hosts.
var addresses = []string{"10.89.7.1", "10.89.7.2"}

// between is a program that runs on two hosts, a process on each.
type between struct {
	cmds             []*exec.Cmd
	out, complaints  [2]bytes.Buffer
	input            io.WriteCloser // of rank 0
	first            *bufio.Reader  // what rank 0 prints, if it is read while it runs
	cancel           context.CancelFunc
	results          [2]error
	wantsFirstReader bool
}

// start runs args(rank) on host rank.
func (b *between) start(t *testing.T, h *hosts.Hosts, args func(rank int) []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	b.cancel = cancel
	t.Cleanup(cancel)
	for rank := range 2 {
		words := h.On(rank, args(rank)...)
		cmd := exec.CommandContext(ctx, words[0], words[1:]...)
		cmd.Stdout, cmd.Stderr = &b.out[rank], &b.complaints[rank]
		if rank == 0 {
			b.pipes(t, cmd)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		b.cmds = append(b.cmds, cmd)
	}
}

func (b *between) pipes(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var err error
	if b.input, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if !b.wantsFirstReader {
		return
	}
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	b.first = bufio.NewReader(out)
}

func (b *between) wait() {
	if b.first != nil {
		_, _ = io.Copy(&b.out[0], b.first)
	}
	for rank, cmd := range b.cmds {
		b.results[rank] = cmd.Wait()
	}
}

// side is the suite's command for one of two hosts. Of a word that stands twice
// the last one holds.
func side(rank int, args ...string) []string {
	program, err := filepath.Abs(programs["plain"])
	if err != nil {
		panic(err) // made by TestMain in a temporary directory: it is absolute
	}
	return append([]string{program, "iwarp:eth0", fmt.Sprintf("rank=%d", rank), "wire=" + addresses[0] + ":7700"}, args...)
}

// TestHosts: the suite between two hosts, with and without a CRC.
func TestHosts(t *testing.T) {
	h := hosts.New(t, 2)
	for _, way := range []string{"engine=inline", "engine=thread", withoutCRC} {
		t.Run(way, func(t *testing.T) {
			var b between
			b.start(t, h, func(rank int) []string { return side(rank, way, "operations=5000", "limit=300000") })
			b.wait()
			for rank := range 2 {
				judge(t, fmt.Sprintf("rank %d", rank), iwarpMay, b.out[rank].Bytes(), b.complaints[rank].String(), b.results[rank])
			}
		})
	}
}

// TestIPv6: the suite between hosts whose interface has only an IPv6 address: one
// that is good beyond the link, or one of the link.
func TestIPv6(t *testing.T) {
	h := hosts.New(t, 2)
	for _, c := range []struct{ name, network, wire string }{
		{"global", "fd89::", "[fd89::1]:7700"},
		{"link-local", "fe80::89:", "[fe80::89:1%eth0]:7700"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for rank := range 2 {
				for _, words := range [][]string{
					{"ip", "addr", "flush", "dev", "eth0"},
					{"ip", "addr", "add", fmt.Sprintf("%s%d/64", c.network, rank+1), "dev", "eth0", "nodad"},
				} {
					words = h.On(rank, words...)
					if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
						t.Fatalf("%q: %v\n%s", words, err, out)
					}
				}
			}
			var b between
			b.start(t, h, func(rank int) []string {
				return side(rank, "wire="+c.wire, "operations=1000", "queue_pairs=100", "limit=300000")
			})
			b.wait()
			for rank := range 2 {
				judge(t, fmt.Sprintf("rank %d", rank), iwarpMay, b.out[rank].Bytes(), b.complaints[rank].String(), b.results[rank])
			}
		})
	}
}

// tool is mpitrace-fabric on two hosts: rank 0 does what args say, the other one
// what rank 0 does; both have the options of a side.
func tool(t *testing.T, h *hosts.Hosts, own []string, args ...string) result {
	t.Helper()
	var b between
	b.start(t, h, func(rank int) []string {
		words := append([]string{toolPrograms["plain"]}, own...)
		if rank == 0 {
			return append(append(words, "--listen", addresses[0]+":7701", "--json"), args...)
		}
		return append(words, "--connect", addresses[0]+":7701")
	})
	b.wait()
	for rank := range 2 {
		if b.results[rank] != nil {
			t.Fatalf("rank %d: %v\n%s", rank, b.results[rank], b.complaints[rank].String())
		}
	}
	return parse(t, outcome{0, b.out[0].String(), ""})
}

// TestToolHosts: SENDs, and datagrams, whose two processes are on two hosts.
func TestToolHosts(t *testing.T) {
	h := hosts.New(t, 2)
	for _, engine := range []string{"inline", "peer"} {
		for _, args := range [][]string{
			{"datagrams", "--size", "64,30000", "--iterations", "20"},
			{"bandwidth", "--operation", "send", "--size", "64,300000", "--iterations", "40"},
		} {
			r := tool(t, h, []string{"--device", "iwarp:eth0", "--engine", engine}, args...)
			want := map[string]int{"datagrams": 4, "bandwidth": 2}[args[0]]
			if r.Mode != args[0] || r.Engine != engine || len(r.Rows) != want {
				t.Errorf("%q: %+v", args, r)
			}
		}
	}
}

// TestMemoryOfDatagramsHosts: over sockets, too, a further peer costs over UD less
// than a tenth of what it costs over RC, memory of sockets included: of this host,
// where the peers are not.
func TestMemoryOfDatagramsHosts(t *testing.T) {
	r := tool(t, hosts.New(t, 2), []string{"--device", "iwarp:eth0"}, "memory", "--connections", "256")
	judgeMemory(t, r)
}

// sent is what a host has sent over an interface so far, in bytes.
func sent(t *testing.T, h *hosts.Hosts, i int, name string) float64 {
	t.Helper()
	words := h.On(i, "ip", "-s", "-j", "link", "show", name)
	out, err := exec.Command(words[0], words[1:]...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var links []struct {
		Stats64 struct {
			TX struct{ Bytes float64 }
		}
	}
	if err := json.Unmarshal(out, &links); err != nil || len(links) != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	return links[0].Stats64.TX.Bytes
}

// TestRails: of each message two rails carry one half each, as the interfaces
// count it; below the threshold messages go whole, in turn.
func TestRails(t *testing.T) {
	// by each side 3 messages in each of 3 kinds of traffic: an odd number
	const bytes, messages = 1 << 20, 9
	h := hosts.New(t, 2)
	if err := h.AddNetwork(); err != nil {
		t.Fatal(err)
	}
	both := []string{"--device", "iwarp:eth0,iwarp:eth1"}
	for _, c := range []struct {
		threshold string
		first     float64 // part of the first rail
	}{{"1024", 0.5}, {"2M", 5.0 / messages}} {
		before := [2]float64{sent(t, h, 0, "eth0"), sent(t, h, 0, "eth1")}
		r := tool(t, h, both, "bandwidth", "--size", fmt.Sprint(bytes), "--iterations", "2", "--stripe-above", c.threshold)
		first, second := sent(t, h, 0, "eth0")-before[0], sent(t, h, 0, "eth1")-before[1]
		if len(r.Rails) != 2 || first+second < messages*bytes {
			t.Errorf("rails %q, %.0f and %.0f bytes", r.Rails, first, second)
		}
		if part := first / (first + second); math.Abs(part-c.first) > 0.02 {
			t.Errorf("above %s: %.3f over the first rail, want %.3f", c.threshold, part, c.first)
		}
	}
	if r := tool(t, h, both, "rails", "--size", "64K", "--iterations", "20"); len(r.Rows) != 2 || r.Rows[1]["rails"] != 2.0 {
		t.Errorf("%+v", r)
	}
}

// TestCutOff: a peer whose network is gone, without a word, is found out by the
// one that waits for it and by the one that does not: cut behind its interface,
// which stays up, or with its own link down.
func TestCutOff(t *testing.T) {
	t.Run("elsewhere", func(t *testing.T) {
		cutOff(t, func(h *hosts.Hosts) error { return h.Cut(1) })
	})
	t.Run("link down", func(t *testing.T) {
		cutOff(t, func(h *hosts.Hosts) error {
			words := h.On(1, "ip", "link", "set", "eth0", "down")
			return exec.Command(words[0], words[1:]...).Run()
		})
	})
}

func cutOff(t *testing.T, cut func(*hosts.Hosts) error) {
	t.Helper()
	h := hosts.New(t, 2)
	b := between{wantsFirstReader: true}
	b.start(t, h, func(rank int) []string { return side(rank, "limit=300000", "peer cut off") })
	line, err := b.first.ReadString('\n')
	if err != nil || line != "cut now\n" {
		b.cancel()
		b.wait()
		t.Fatalf("%q, %v\n%s%s", line, err, b.complaints[0].String(), b.complaints[1].String())
	}
	if err := cut(h); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(b.input, "cut")
	b.wait()
	for rank := range 2 {
		judge(t, fmt.Sprintf("rank %d", rank), nil, b.out[rank].Bytes(), b.complaints[rank].String(), b.results[rank])
	}
}

// TestSlowLink: datagrams into a socket that is full, because the link is slower
// than the sender and keeps all that waits for it, and into a link that is down.
func TestSlowLink(t *testing.T) {
	h := hosts.New(t, 2)
	words := h.On(0, "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", "200mbit", "burst", "80kb", "limit", "64mb")
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", words, err, out)
	}
	for _, engine := range []string{"inline", "thread"} {
		t.Run(engine, func(t *testing.T) {
			var b between
			b.start(t, h, func(rank int) []string {
				return side(rank, "engine="+engine, "limit=300000", "datagrams over a slow link")
			})
			b.wait()
			for rank := range 2 {
				judge(t, fmt.Sprintf("rank %d", rank), nil, b.out[rank].Bytes(), b.complaints[rank].String(), b.results[rank])
			}
		})
	}
}

// TestLinkDown: a link that goes down and comes back is told as an event.
func TestLinkDown(t *testing.T) {
	h := hosts.New(t, 1)
	program, err := filepath.Abs(programs["address"])
	if err != nil {
		t.Fatal(err)
	}
	slow, err := filepath.Abs("testdata/slow.fault")
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"engine=inline", "engine=thread", "faults=" + slow} {
		t.Run(filepath.Base(way), func(t *testing.T) {
			words := h.On(0, program, "iwarp:eth0", way, "limit=300000", "link down and up")
			cmd := exec.Command(words[0], words[1:]...)
			var complaints bytes.Buffer
			cmd.Stderr = &complaints
			out, err := cmd.Output()
			judge(t, way, nil, out, complaints.String(), err)
		})
	}
}

// processors are those that this process may use.
func processors(t *testing.T) (cpus []string) {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, fmt.Sprint(cpu))
		}
	}
	return cpus
}

// TestPingPong runs the measurement of small messages between two hosts. It
// checks that it works; the figures are for who reads them.
func TestPingPong(t *testing.T) {
	h := hosts.New(t, 2)
	program := filepath.Join(t.TempDir(), "pingpong")
	sources := []string{filepath.Join(root, "bench/fabric/programs/sockets.c")}
	for _, pattern := range []string{"c/fabric/*.c", "c/fabric/[^t]*/*.c"} { // c/fabric/tool is a program of its own
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, files...)
	}
	args := append([]string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program}, sources...)
	if out, err := exec.Command("gcc", append(args, "-lpthread", "-ldl")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if cpus := processors(t); len(cpus) > 1 { // each side polls
		if err := h.Pin(cpus[0], cpus[1]); err != nil {
			t.Fatal(err)
		}
	}
	var b between
	b.start(t, h, func(rank int) []string {
		return []string{program, "iwarp:eth0", fmt.Sprint(rank), addresses[rank], addresses[1-rank], fmt.Sprint(*turns)}
	})
	b.wait()
	text := b.out[0].String()
	if b.results[0] != nil || b.results[1] != nil || !strings.Contains(text, "iwarp RC / bare TCP") {
		t.Errorf("%v, %v\n%s%s", b.results[0], b.results[1], b.complaints[0].String(), b.complaints[1].String())
	}
	t.Log("\n" + text)
}
