package fabric

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// toolPrograms are builds of mpitrace-fabric, by the names of builds.
var toolPrograms = map[string]string{}

// outcome is what a program left behind.
type outcome struct {
	status      int
	out, errors string
}

// runTool runs mpitrace-fabric. Whatever it waits for, it gives up in time.
func runTool(t *testing.T, build string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	return ended(t, ctx, exec.CommandContext(ctx, toolPrograms[build], args...))
}

// ended runs a command, which must end before its context does.
func ended(t *testing.T, ctx context.Context, cmd *exec.Cmd) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%q: %v, %v", cmd.Args, err, ctx.Err())
	}
	return outcome{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// result is what --json writes.
type result struct {
	Mode, Engine string
	Rails        []string
	Rows         []map[string]any
}

func parse(t *testing.T, o outcome) result {
	t.Helper()
	var r result
	if o.status != 0 {
		t.Fatalf("status %d\n%s%s", o.status, o.out, o.errors)
	}
	if err := json.Unmarshal([]byte(o.out), &r); err != nil {
		t.Fatalf("%v\n%s", err, o.out)
	}
	return r
}

// small settings of each mode, and how many rows they give.
var small = []struct {
	mode string
	args []string
	rows int
}{
	{"pingpong", []string{"--size", "1,8,64K", "--iterations", "100"}, 6},
	{"bandwidth", []string{"--size", "8,1000,100000", "--iterations", "60"}, 3},
	{"bandwidth", []string{"--operation", "send", "--buffers", "registered", "--size", "5,64,100000", "--iterations", "60"}, 3},
	{"registration", []string{"--size", "4K,1M", "--iterations", "20"}, 2},
	{"connections", []string{"--size", "8,3000", "--connections", "16", "--iterations", "10", "--duration", "20"}, 10},
	{"rails", []string{"--per-port", "3", "--size", "100,50000", "--iterations", "40"}, 6},
	{"memory", []string{"--connections", "64"}, 2},
	{"datagrams", []string{"--size", "8,4000", "--iterations", "40"}, 4},
	{"rendezvous", []string{"--size", "1,100,64K", "--iterations", "20", "--engine-cpu", "0"}, 6},
}

// TestTool: every mode, checked data, on each device with each engine.
func TestTool(t *testing.T) {
	for _, d := range devices {
		for _, engine := range []string{"inline", "peer", "thread"} {
			for _, build := range []string{"plain", "address"} {
				if (engine == "inline") != (build == "address") {
					continue // the slow engines without the slow build
				}
				for _, m := range small {
					t.Run(strings.Join([]string{d.name, engine, build, m.mode}, " "), func(t *testing.T) {
						args := append([]string{m.mode, "--device", d.name, "--engine", engine, "--timeout", "300", "--json"}, m.args...)
						r := parse(t, runTool(t, build, args...))
						if r.Mode != m.mode || r.Engine != engine || len(r.Rails) == 0 || len(r.Rows) != m.rows {
							t.Errorf("%+v, %d rows", r, len(r.Rows))
						}
						for _, row := range r.Rows {
							for key, v := range row {
								// memory is a difference, in which another use may have ended
								if n, ok := v.(float64); ok && n < 0 && !strings.Contains(key, "kib") {
									t.Errorf("%s is %v in %v", key, n, row)
								}
							}
						}
					})
				}
			}
		}
	}
}

// TestToolUnderFaults: delays and full queues slow it down, no more.
func TestToolUnderFaults(t *testing.T) {
	for _, m := range small {
		if m.mode == "pingpong" || m.mode == "connections" || m.mode == "memory" {
			continue // they post without trying again
		}
		t.Run(m.mode, func(t *testing.T) {
			parse(t, runTool(t, "address", append([]string{m.mode, "--json", "--faults", "testdata/slow.fault"}, m.args...)...))
		})
	}
}

// TestToolDatagramsLost: datagrams that were dropped are counted as lost, and do
// not end the measurement; doubled ones are not counted twice.
func TestToolDatagramsLost(t *testing.T) {
	script := filepath.Join(t.TempDir(), "drop.fault")
	if err := os.WriteFile(script, []byte("seed 5\ndrop 1/10 ud\nduplicate 1/10 ud\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		r := parse(t, runTool(t, "address", "datagrams", "--device", d.name, "--size", "64", "--iterations", "40", "--faults", script, "--json"))
		lost := map[any]float64{}
		for _, row := range r.Rows {
			lost[row["transport"]] = row["lost_percent"].(float64)
		}
		if lost["RC"] != 0 || lost["UD"] < 1 || lost["UD"] > 50 {
			t.Errorf("%s: %% lost: %v", d.name, lost)
		}
	}
}

// TestMemoryOfDatagrams: an added peer costs over UD less than a tenth of what
// it costs over RC, in memory that a process counts as its own.
func TestMemoryOfDatagrams(t *testing.T) {
	judgeMemory(t, parse(t, runTool(t, "plain", "memory", "--device", "shm", "--connections", "512", "--json")))
}

func judgeMemory(t *testing.T, r result) {
	t.Helper()
	each, own := map[any]float64{}, map[any]float64{}
	for _, row := range r.Rows {
		each[row["transport"]] = row["kib_per_added_peer"].(float64)
		// without sockets
		own[row["transport"]] = row["private_kib"].(float64) + row["shared_kib"].(float64)
	}
	t.Logf("KiB for each added peer: RC %.2f, UD %.2f; of the process for all: RC %.0f, UD %.0f", each["RC"], each["UD"], own["RC"], own["UD"])
	if each["RC"] < 1 || each["UD"] >= each["RC"]/10 || own["UD"] >= own["RC"]/10 {
		t.Errorf("for each added peer %v KiB, of the process %v KiB", each, own)
	}
}

// TestTwoHosts: the two processes are started apart and meet at a port.
func TestTwoHosts(t *testing.T) {
	listener := exec.Command(toolPrograms["plain"], "bandwidth", "--size", "4K", "--iterations", "100", "--json", "--listen", "127.0.0.1:0")
	said, err := listener.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	listener.Stdout = &out
	if err := listener.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(10*time.Minute, func() { listener.Process.Kill() })
	defer stop.Stop()
	var port int
	if _, err := fmt.Fscanf(said, "mpitrace fabric: waiting at port %d", &port); err != nil {
		t.Fatal(err)
	}
	if o := runTool(t, "plain", "--connect", fmt.Sprintf("127.0.0.1:%d", port)); o.status != 0 || o.out != "" {
		t.Errorf("the one that connects: %+v", o)
	}
	if err := listener.Wait(); err != nil {
		t.Error(err)
	}
	if r := parse(t, outcome{0, out.String(), ""}); len(r.Rows) != 1 || r.Mode != "bandwidth" {
		t.Errorf("%+v", r)
	}
}

// TestToolMessages: what is wrong, and what would be right; in bounded time.
func TestToolMessages(t *testing.T) {
	for _, test := range []struct {
		args   []string
		status int
		want   string
	}{
		{nil, 2, "usage:"},
		{[]string{"nosuch"}, 2, "there is no mode nosuch"},
		{[]string{"list", "pingpong"}, 2, "one mode at a time"},
		{[]string{"pingpong", "--engine", "steam"}, 2, "inline, peer or thread"},
		{[]string{"bandwidth", "--operation", "read"}, 2, "write or send"},
		{[]string{"bandwidth", "--buffers", "none"}, 2, "device or registered"},
		{[]string{"pingpong", "--size", "8,x"}, 2, "a number from 1"},
		{[]string{"pingpong", "--size", "9999999999999999999999"}, 2, "a number from 1"},
		{[]string{"pingpong", "--cpu", "0,9999"}, 2, "a number from 0"},
		{[]string{"pingpong", "--engine-cpu", "x"}, 2, "a number from 0"},
		{[]string{"pingpong", "--nosuch"}, 2, "--nosuch"},
		{[]string{"pingpong", "--listen", "1", "--connect", "a"}, 2, "not both"},
		{[]string{"pingpong", "--device", "nosuch*"}, 1, "no rail that is up is named nosuch*; there are: "},
		{[]string{"rails", "--device", "shm"}, 1, "one rail (shm) is nothing to compare"},
		{[]string{"pingpong", "--connect", "127.0.0.1:1", "--timeout", "1"}, 1, "connecting to 127.0.0.1:1"},
		{[]string{"pingpong", "--listen", "127.0.0.1:0", "--timeout", "1"}, 1, "1 of 2 ranks came"},
		{[]string{"pingpong", "--connect", "host:port:x"}, 1, "host:port:x"},
		{[]string{"pingpong", "--faults", "nosuch.fault"}, 1, "nosuch.fault"},
	} {
		o := runTool(t, "address", test.args...)
		if o.status != test.status || !strings.Contains(o.errors, test.want) {
			t.Errorf("%q: status %d, %q; want %d, %q", test.args, o.status, o.errors, test.status, test.want)
		}
	}
	var list struct {
		Devices []struct {
			Name  string
			Ports []struct{ Name string }
		}
	}
	if o := runTool(t, "address", "list", "--json"); json.Unmarshal([]byte(o.out), &list) != nil || len(list.Devices) == 0 || len(list.Devices[0].Ports) == 0 {
		t.Errorf("list: %+v", o)
	}
}

// receivedPackets is a counter of the loopback interface, as list tells it.
func receivedPackets(t *testing.T) uint64 {
	t.Helper()
	var list struct {
		Devices []struct {
			Name  string
			Ports []struct{ Counters map[string]uint64 }
		}
	}
	o := runTool(t, "address", "list", "--json")
	if err := json.Unmarshal([]byte(o.out), &list); err != nil {
		t.Fatalf("%v: %+v", err, o)
	}
	for _, d := range list.Devices {
		if d.Name == "shm" && len(d.Ports[0].Counters) != 0 {
			t.Errorf("counters of shared memory: %v", d.Ports[0].Counters)
		}
		if d.Name != "iwarp:lo" {
			continue
		}
		for _, name := range []string{"rx_errors", "rx_dropped", "tx_errors"} {
			if _, there := d.Ports[0].Counters[name]; !there {
				t.Errorf("%s has no %s", d.Name, name)
			}
		}
		return d.Ports[0].Counters["rx_packets"]
	}
	t.Fatalf("no iwarp:lo in %s", o.out)
	return 0
}

// TestToolNetworks: list has the network of each interface, as the system says it.
func TestToolNetworks(t *testing.T) {
	var list struct {
		Devices []struct {
			Name  string
			Ports []struct{ Network string }
		}
	}
	o := runTool(t, "address", "list", "--json")
	if err := json.Unmarshal([]byte(o.out), &list); err != nil {
		t.Fatalf("%v: %+v", err, o)
	}
	loopback := false
	for _, d := range list.Devices {
		name, iwarp := strings.CutPrefix(d.Name, "iwarp:")
		network := d.Ports[0].Network
		loopback = loopback || name == "lo" && network == "127.0.0.1/8"
		if !iwarp || network == "" { // it has an address that is good on its link only
			continue
		}
		i, err := net.InterfaceByName(name)
		if err != nil {
			t.Fatal(err)
		}
		addresses, err := i.Addrs()
		if err != nil || !slices.ContainsFunc(addresses, func(a net.Addr) bool { return a.String() == network }) {
			t.Errorf("%s has %s, and the system says %v, %v", d.Name, network, addresses, err)
		}
	}
	if !loopback {
		t.Errorf("no 127.0.0.1/8 in %s", o.out)
	}
}

// TestToolCounters: list says what the system has counted.
func TestToolCounters(t *testing.T) {
	before := receivedPackets(t)
	parse(t, runTool(t, "address", "pingpong", "--device", "iwarp:lo", "--size", "8", "--iterations", "100", "--json"))
	if after := receivedPackets(t); after < before+100 {
		t.Errorf("%d packets before 100 messages there and back, %d after", before, after)
	}
}

// TestToolKilled: one of the two is killed; the other says so, and ends.
func TestToolKilled(t *testing.T) {
	cmd := exec.Command(toolPrograms["plain"], "pingpong", "--size", "8", "--iterations", "1000000000", "--timeout", "120")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(10*time.Minute, func() { cmd.Process.Kill() })
	defer stop.Stop()
	children := fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid)
	child := 0
	for n := 0; n < 20000 && child == 0; n++ {
		text, _ := os.ReadFile(children)
		fmt.Sscan(string(text), &child)
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond)
	if child == 0 || syscall.Kill(child, syscall.SIGKILL) != nil {
		t.Fatal("no second process to kill")
	}
	err := cmd.Wait()
	if err == nil || cmd.ProcessState.ExitCode() != 1 || !regexp.MustCompile(`peer is gone|flushed|rank 1 is gone`).MatchString(errs.String()) {
		t.Errorf("%v\n%s", err, errs.String())
	}
}

var helpOption = regexp.MustCompile(`(?m)^  (--[a-z-]+)`)

// TestHelpOfBoth: mpitrace fabric documents the options that the program has.
func TestHelpOfBoth(t *testing.T) {
	command, err := os.ReadFile(filepath.Join(root, "cmd/mpitrace/fabric.go"))
	if err != nil {
		t.Fatal(err)
	}
	program := helpOption.FindAllString(runTool(t, "plain", "--help").out, -1)
	documented := helpOption.FindAllString(string(command), -1)
	if len(program) < 10 || strings.Join(program, "") != strings.Join(documented, "") {
		t.Errorf("the program has\n%s\nmpitrace fabric --help says\n%s", strings.Join(program, "\n"), strings.Join(documented, "\n"))
	}
}

// TestPathsUnderRandomFaults: scripts by seed; a failing one is kept in the
// message.
func TestPathsUnderRandomFaults(t *testing.T) {
	for seed := uint64(1); seed <= 12; seed++ {
		random := rand.New(rand.NewPCG(seed, seed))
		script := fmt.Sprintf("seed %d\ndelay 1/%d %d\nfull 1/%d\nstarve 1/%d %d\n", seed, 1+random.IntN(20), 1+random.IntN(9), 2+random.IntN(20), 100+random.IntN(100), 1+random.IntN(50))
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "random.fault")
			if err := os.WriteFile(path, []byte(script), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, d := range devices {
				conformance(t, "address", d.may, d.name, "faults="+path, "limit=300000", fmt.Sprint("seed=", seed),
					"puts with a notice", "reads that wait for a token", "credits both ways", "striped messages")
			}
			if t.Failed() {
				t.Logf("the script was\n%s", script)
			}
		})
	}
}
