package vm

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// memory: an added peer takes over UD less than a tenth of what it takes over RC,
// queues that the device shares with the process included.
func memory(t *testing.T, g *Guest, tool string) {
	out := g.Run(t, 5*time.Minute, tool, "memory", "--device", "rxe0", "--connections", "64", "--timeout", "60", "--json")
	var r struct {
		Rows []struct {
			KiB float64 `json:"kib_per_added_peer"`
		}
	}
	if err := json.Unmarshal(out.Stdout, &r); err != nil || len(r.Rows) != 2 {
		t.Fatalf("status %d, %v\n%s%s", out.Status, err, out.Stdout, out.Stderr)
	}
	rc, ud := r.Rows[0].KiB, r.Rows[1].KiB
	t.Logf("KiB for each added peer: RC %.2f, UD %.2f", rc, ud)
	if rc < 1 || ud >= rc/10 {
		t.Errorf("KiB for each added peer: RC %v, UD %v", rc, ud)
	}
}

// rows of each mode of the tool, at sizes that an emulated guest is quick with.
var rows = []struct {
	count int
	args  []string
}{
	{4, []string{"pingpong", "--size", "8,64K", "--iterations", "51"}},
	{3, []string{"bandwidth", "--operation", "send", "--buffers", "registered", "--size", "5,64,100000", "--iterations", "20"}},
	{3, []string{"registration", "--size", "4K,64K,1M", "--iterations", "20"}},
	{10, []string{"connections", "--size", "8,3000", "--connections", "16", "--iterations", "4", "--duration", "20"}},
	{4, []string{"rails", "--device", "rxe0,rxe1", "--size", "100,50000", "--iterations", "20"}},
	{4, []string{"datagrams", "--size", "8,4000", "--iterations", "20"}},
	{2, []string{"rendezvous", "--size", "64K", "--iterations", "20"}},
}

// modes: the tool measures between two processes, with checked data, and lists both
// devices with what they have counted.
func modes(t *testing.T, g *Guest, tool string) {
	for _, m := range rows {
		t.Run(m.args[0], func(t *testing.T) {
			args := append([]string{tool, "--device", "rxe0", "--timeout", "300", "--json"}, m.args...)
			out := g.Run(t, limitOf(15), args...)
			var r struct {
				Mode string
				Rows []map[string]any
			}
			if err := json.Unmarshal(out.Stdout, &r); err != nil || out.Status != 0 {
				t.Fatalf("status %d, %v\n%s%s", out.Status, err, out.Stdout, out.Stderr)
			}
			if r.Mode != m.args[0] || len(r.Rows) != m.count {
				t.Errorf("%s, %d rows, not %d\n%s", r.Mode, len(r.Rows), m.count, out.Stdout)
			}
			for _, row := range r.Rows {
				if r.Mode == "registration" { // of a device that pins
					t.Logf("%v", row)
				}
				for key, value := range row {
					if n, ok := value.(float64); ok && n < 0 {
						t.Errorf("%s is %v in %v", key, n, row)
					}
				}
			}
		})
	}
	// when both have sent packets
	t.Run("list", func(t *testing.T) {
		out := g.Run(t, limitOf(5), tool, "list", "--json")
		var list struct {
			Devices []struct {
				Name, Provider string
				Ports          []struct{ Counters map[string]uint64 }
			}
		}
		if err := json.Unmarshal(out.Stdout, &list); err != nil || out.Status != 0 {
			t.Fatalf("status %d, %v\n%s%s", out.Status, err, out.Stdout, out.Stderr)
		}
		counting := 0
		for _, d := range list.Devices {
			if d.Provider == "verbs" && len(d.Ports) == 1 && d.Ports[0].Counters["sent_pkts"] > 0 {
				counting++
			}
		}
		if counting != 2 {
			t.Errorf("%d devices of verbs that have sent packets, not 2\n%s", counting, out.Stdout)
		}
	})
}

// thenPackets runs a command, and prints how many packets each rail has sent
// meanwhile.
const thenPackets = `sent() { cat /sys/class/infiniband/rxe$1/ports/1/hw_counters/sent_pkts; }
first=$(sent 0) second=$(sent 1)
"$@" >/dev/null || exit
echo $(($(sent 0) - first)) $(($(sent 1) - second))`

// stripes: of each message both rails carry one half, as the devices count it; below
// the threshold messages go whole, in turn. One side sends 9, the other 6: each 3 in
// each kind of traffic, but for the one that has one direction only. Packets that are
// sent again count, too, so it is the least of each rail in up to five runs that has to
// come out. Both sides are in one guest, or each in one of two.
func stripes(t *testing.T, tool string, guests ...*Guest) {
	const bytes, messages, packet = 1 << 20, 15, 4096
	for threshold, want := range map[string]float64{"1024": 0.5, "2M": 8.0 / messages} {
		right, first, second := false, math.Inf(1), math.Inf(1)
		for try := 0; try < 5 && !right; try++ {
			a, b := striped(t, guests, tool, "bandwidth", "--size", fmt.Sprint(bytes), "--iterations", "2", "--stripe-above", threshold)
			first, second = min(first, a), min(second, b)
			part := first / (first + second)
			t.Logf("above %s: %.0f and %.0f packets, at least %.0f and %.0f, %.3f over the first rail", threshold, a, b, first, second, part)
			right = first+second >= messages*bytes/packet && math.Abs(part-want) < 0.015
		}
		if !right {
			t.Errorf("above %s: want %.3f over the first rail", threshold, want)
		}
	}
}

// striped runs the tool over two rails, and returns how many packets they have sent
// at both sides.
func striped(t *testing.T, guests []*Guest, tool string, args ...string) (first, second float64) {
	t.Helper()
	const wire = "10.78.0.1:7200"
	words := []string{"sh", "-c", thenPackets, "sh", tool, "--device", "rxe0,rxe1", "--timeout", "60"}
	outs := make([]mpijob.Outcome, len(guests))
	if len(guests) > 1 {
		args = append(args, "--listen", wire)
	}
	if err := guests[0].Start(limitOf(10), slices.Concat(words, args)...); err != nil {
		t.Fatal(err)
	}
	for i, g := range guests[1:] {
		outs[i+1] = g.Run(t, limitOf(10), slices.Concat(words, []string{"--connect", wire})...)
	}
	var err error
	if outs[0], err = guests[0].Wait(); err != nil {
		t.Fatal(err)
	}
	for _, out := range outs {
		var here [2]float64
		if _, err := fmt.Sscan(string(out.Stdout), &here[0], &here[1]); err != nil || out.Status != 0 || out.TimedOut {
			t.Fatalf("status %d, %v\n%s%s", out.Status, err, out.Stdout, out.Stderr)
		}
		first, second = first+here[0], second+here[1]
	}
	return first, second
}
