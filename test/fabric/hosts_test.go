package fabric

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/test/hosts"
)

var turns = flag.Int("turns", 2, "turns of the ping-pong between two hosts; make bench-fabric takes 101")

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
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
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

// side is the suite's command for one of two hosts.
func side(rank int, args ...string) []string {
	program, err := filepath.Abs(programs["plain"])
	if err != nil {
		panic(err) // made by TestMain in a temporary directory: it is absolute
	}
	return append([]string{program, "iwarp:eth0", fmt.Sprintf("rank=%d", rank), "wire=" + addresses[0] + ":7700"}, args...)
}

// TestHosts: the suite between two hosts.
func TestHosts(t *testing.T) {
	h := hosts.New(t, 2)
	for _, engine := range []string{"inline", "thread"} {
		t.Run(engine, func(t *testing.T) {
			var b between
			b.start(t, h, func(rank int) []string { return side(rank, "engine="+engine, "operations=5000", "limit=60000") })
			b.wait()
			for rank := range 2 {
				judge(t, fmt.Sprintf("rank %d", rank), []string{"waiting for a receive"}, b.out[rank].Bytes(), b.complaints[rank].String(), b.results[rank])
			}
		})
	}
}

// TestCutOff: a peer whose network is gone, without a word, is found out by the
// one that waits for it and by the one that does not: cut behind its interface,
// which stays up, or with its own link down.
func TestCutOff(t *testing.T) {
	t.Run("elsewhere", func(t *testing.T) {
		cutOff(t, func(h *hosts.Hosts) []string { return []string{"ip", "link", "set", h.Names[1] + "o", "nomaster"} })
	})
	t.Run("link down", func(t *testing.T) {
		cutOff(t, func(h *hosts.Hosts) []string { return h.On(1, "ip", "link", "set", "eth0", "down") })
	})
}

func cutOff(t *testing.T, cut func(*hosts.Hosts) []string) {
	t.Helper()
	h := hosts.New(t, 2)
	b := between{wantsFirstReader: true}
	b.start(t, h, func(rank int) []string { return side(rank, "limit=60000", "peer cut off") })
	line, err := b.first.ReadString('\n')
	if err != nil || line != "cut now\n" {
		b.cancel()
		b.wait()
		t.Fatalf("%q, %v\n%s%s", line, err, b.complaints[0].String(), b.complaints[1].String())
	}
	words := cut(h)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	fmt.Fprintln(b.input, "cut")
	b.wait()
	for rank := range 2 {
		judge(t, fmt.Sprintf("rank %d", rank), nil, b.out[rank].Bytes(), b.complaints[rank].String(), b.results[rank])
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
			words := h.On(0, program, "iwarp:eth0", way, "limit=60000", "link down and up")
			cmd := exec.Command(words[0], words[1:]...)
			var complaints bytes.Buffer
			cmd.Stderr = &complaints
			out, err := cmd.Output()
			judge(t, way, nil, out, complaints.String(), err)
		})
	}
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
