package explain

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/advise"
	"github.com/mpitrace/mpitrace/internal/golden"
	"github.com/mpitrace/mpitrace/policy"
	"github.com/mpitrace/mpitrace/reusetrack"
)

func effective(t *testing.T, layers ...string) *policy.Effective {
	t.Helper()
	var list []*policy.Layer
	for _, text := range layers {
		l, err := policy.ParseString("line", text)
		if text[0] == '{' {
			l, err = policy.ParseJSON("file", []byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, l)
	}
	e, err := policy.Resolve(list...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func node() *Calibration {
	return &Calibration{Schema: CalibrationSchema, Node: "n1", Device: "made up", Transfer: reusetrack.Curve{{Bytes: 8, NS: 1000}, {Bytes: 1 << 20, NS: 101000}},
		Costs: &reusetrack.Costs{
			Schema: reusetrack.CostsSchema, Copy: reusetrack.Curve{{Bytes: 128, NS: 20}, {Bytes: 8192, NS: 2000}}, Register: reusetrack.Curve{{Bytes: 4096, NS: 30000}},
			UsageLookUp: reusetrack.Curve{{Bytes: 128, NS: 20}}, CacheLookUp: reusetrack.Curve{{Bytes: 128, NS: 10}}, Exposed: reusetrack.Curve{{Bytes: 8, NS: 2000}},
		}}
}

func job() *advise.Input {
	return &advise.Input{
		ReuseKnown: true,
		Reuse: []reusetrack.Prediction{
			{Path: "send", From: 4096, To: 8192, Accesses: 100_000, Buffers: 100, MeanBytes: 5000},
			{Path: "send", From: 512, To: 1024, Accesses: 300, Buffers: 100, MeanBytes: 600},
			{Path: "send", From: 8, To: 16, Accesses: 10, Buffers: 1, MeanBytes: 8},
		},
		Sites: []advise.Site{
			{Function: "MPI_Isend", Place: "hidden.c:1", Names: []string{"heat+0x10"}, Calls: 1000, Requests: 1000, Bytes: 5_000_000, RequestNS: 9_000_000, BlockedNS: 1_000_000},
			{Function: "MPI_Send_c", Place: "exposed.c:2", Calls: 1000, Bytes: 5_000_000},
			{Function: "MPI_Send", Place: "rare.c:3", Calls: 300, Bytes: 300 * 600},
			{Function: "MPI_Send", Place: "unknown.c:4", Calls: 10, Bytes: 10 * 9000},
			{Function: "MPI_Send", Place: "edge.c:4", Calls: 200, Peerless: 100, Bytes: 100 * 5000},
			{Function: "MPI_Send", Place: "tiny.c:5", Calls: 10, Bytes: 80},
			{Function: "MPI_Isend", Place: "big.c:6", Names: []string{"solve", "heat+0x66"}, Calls: 10, Requests: 10, Bytes: 10 << 20, RequestNS: 3_000_000, BlockedNS: 1_000_000},
			{Function: "MPI_Send", Place: "big.c:7", Names: []string{"solve", "heat+0x67"}, Calls: 10, Bytes: 10 << 20},
			{Function: "MPI_Irecv", Place: "big.c:8", Names: []string{"solve", "heat+0x68"}, Calls: 10, Requests: 10, Bytes: 10 << 20, RequestNS: 3_000_000, BlockedNS: 1_000_000},
			{Function: "MPI_Recv", Place: "small.c:9", Calls: 10, Bytes: 10000},
			{Function: "MPI_Bcast", Place: "none.c:10", Calls: 10, Bytes: 10000},
			{Function: "MPI_Start", Place: "none.c:11", Calls: 7, Bytes: 10000},
			{Function: "MPI_Send", Place: "null.c:12", Calls: 10},
			{Function: "MPI_Bsend", Place: "buffered.c:13", Calls: 10, Bytes: 10 * 5000},
			{Function: "MPI_Sendrecv", Place: "both.c:14", Calls: 10, Bytes: 20 << 20},
			{Function: "MPI_Mrecv", Place: "matched.c:15", Calls: 10, Bytes: 10 << 20},
		},
		Sizes: []advise.SizeClass{
			{Function: "MPI_Isend", Size: "4-8 KiB", From: 4096, To: 8192, Messages: 1000, Requests: 1010, RequestNS: 12_000_000, BlockedNS: 2_000_000},
			{Function: "MPI_Isend", Size: "1-2 MiB", From: 1 << 20, To: 2 << 20, Messages: 10, Requests: 1010, RequestNS: 12_000_000, BlockedNS: 2_000_000},
			{Function: "MPI_Send", From: 0, To: 1, Messages: 10},
			{Function: "MPI_Send", Size: "8-16 B", From: 8, To: 16, Messages: 10},
			{Function: "MPI_Send", Size: "from 256 GiB", From: 1 << 38, To: 0, Messages: 1},
			{Function: "MPI_Irecv", Size: "1-2 MiB", From: 1 << 20, To: 2 << 20, Messages: 10, Requests: 10, RequestNS: 3_000_000, BlockedNS: 1_000_000},
			{Function: "MPI_Bcast", From: 8, To: 16, Messages: 10},
		},
	}
}

func TestText(t *testing.T) {
	for name, layers := range map[string][]string{
		"auto.txt": {"auto"},
		"rules.txt": {`{"schema": 1, "speculation": 100, "rules": [
			{"name": "big", "when": {"site": "solve*", "operation": "isend"}, "use": {"rendezvous": ["write", "read"]}},
			{"name": "near", "when": {"peer": "same-node"}, "use": {"eager": "copy"}},
			{"name": "hidden", "when": {"site": "heat?0x10"}, "use": {"eager": "copy"}}]}`},
	} {
		var out bytes.Buffer
		if err := Explain(job(), node(), effective(t, layers...)).WriteText(&out); err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, name, out.Bytes())
	}
	var out bytes.Buffer
	if err := Explain(job(), node(), effective(t, "auto")).WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "auto.json", out.Bytes())
}

// TestEngine: whoever sends does the work of a software device, unless a thread does.
func TestEngine(t *testing.T) {
	for _, c := range []struct {
		device, policy string
		known          bool
	}{
		{"shm", "auto", false}, {"iwarp:eth0", "eager-reuse", false}, {"shm", "engine=thread", true},
		{"mlx5_0", "auto", true},
	} {
		n := node()
		n.Device = c.device
		s := Explain(job(), n, effective(t, c.policy)).Sites[0]
		if reuse := s.Candidates[len(s.Candidates)-1]; reuse.Known != c.known || c.known == (s.Chosen == "copy") && !s.Pinned {
			t.Errorf("%s, %s: chosen %s, %+v", c.device, c.policy, s.Chosen, reuse)
		}
	}
}

// TestInJob: what a job does with long messages where reading and writing are left.
func TestInJob(t *testing.T) {
	const tries, writes = "tries reading", "writes, for over TCP"
	for _, c := range []struct {
		function, operation, device string
		proof                       bool
		want                        string
	}{
		{"MPI_Send", "send", "iwarp:eth0", true, writes},
		{"MPI_Ssend_c", "send", "iwarp:eth0", true, writes},
		{"MPI_Bsend", "send", "iwarp:eth0", true, tries},
		{"MPI_Isend", "isend", "iwarp:eth0", true, tries},
		{"MPI_Send", "send", "mlx5_0", true, tries},
		{"MPI_Send", "send", "iwarp:eth0", false, "reads"},
	} {
		s := &Site{Function: c.function, Setting: "rendezvous", Candidates: []Candidate{{Name: "read"}, {Name: "write"}}}
		if got := s.inJob(c.operation, c.device, c.proof); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s over %s, proof %v: %q, want %q", c.function, c.device, c.proof, got, c.want)
		}
	}
}

func TestNothing(t *testing.T) {
	e := Explain(&advise.Input{}, node(), effective(t, "auto"))
	if len(e.Sites) != 0 || len(e.Notes) == 0 {
		t.Errorf("%+v", e)
	}
}

// TestDatagrams: what is chosen for peers by connection does not hold for all.
func TestDatagrams(t *testing.T) {
	for line, want := range map[string]bool{"auto": false, "transport=ud-first,rc-after=7,rc-peers=3": true} {
		notes := strings.Join(Explain(job(), node(), effective(t, line)).Notes, "\n")
		if strings.Contains(notes, "until 7 messages went to it, and all but the busiest 3 for good") != want {
			t.Errorf("%s: %s", line, notes)
		}
	}
}

// One use after the other, as they happen.
func eachUse(s *Site, c *Calibration, at, uses uint64) float64 {
	sum := 0.0
	for use := uint64(1); use <= uses; use++ {
		sum += s.Inputs.CopyNS + s.Inputs.TransferNS // at the receiver, and on the way
		if use < at {
			sum += c.Costs.UsageLookUp.At(s.MeanBytes) + s.Inputs.CopyNS
			continue
		}
		if use == at {
			sum += s.Inputs.RegisterNS
		}
		sum += s.Inputs.LookUpNS + s.Inputs.ExposedNS
	}
	return sum / float64(uses)
}

func TestEagerAgainstEachUse(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	registered := 0
	for range 2000 {
		c := node()
		c.Costs.Register = reusetrack.Curve{{Bytes: 128, NS: random.Float64() * 50000}}
		bytes, uses := 128+random.Uint64N(8000), 1+random.Uint64N(300)
		in := &advise.Input{Reuse: []reusetrack.Prediction{{Path: "send", To: 1 << 20, Accesses: uses * 5, Buffers: 5}},
			Sites: []advise.Site{{Function: "MPI_Isend", Calls: 1, Requests: 1, Bytes: bytes, RequestNS: random.Uint64N(4000)}}}
		s := Explain(in, c, effective(t, "speculation=50")).Sites[0]
		at, ok := c.Costs.Threshold(bytes, s.Inputs.ExposedNS, reusetrack.Half)
		if !ok {
			at = uses + 1
		}
		if uses >= at {
			registered++
		}
		want := eachUse(s, c, at, uses)
		if got := s.Candidates[1].NS; math.Abs(got-want) > 1e-6*want {
			t.Fatalf("%d bytes, %d uses, registered at %d: %g, want %g", bytes, uses, at, got, want)
		}
		if chosen := s.Candidates[0].NS > s.Candidates[1].NS; chosen != (s.Chosen == "reuse") {
			t.Fatalf("%+v", s)
		}
	}
	if registered < 100 || registered > 1900 {
		t.Errorf("%d of 2000 were registered", registered)
	}
}

func TestLeastReuse(t *testing.T) {
	for _, w := range policy.SettingWords() {
		if w.Name == "reuse_from" && w.Min != reusetrack.MinBytes {
			t.Errorf("reuse_from may be %d, the model begins at %d", w.Min, reusetrack.MinBytes)
		}
	}
}

func TestCalibration(t *testing.T) {
	c := node()
	c.Fabric(reusetrack.Curve{{Bytes: 4096, NS: 7}}, nil, reusetrack.Curve{{Bytes: 8, NS: 5}, {Bytes: 4096, NS: 9}})
	if err := c.Validate(); err != nil || c.Costs.Exposed.At(4096) != 14 || c.Costs.StandIn {
		t.Errorf("%v %+v", err, c.Costs)
	}
	c.Node = "n\x1b[31m"
	if err := c.Validate(); !errors.Is(err, ErrCalibration) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%q", err)
	}
	if _, err := ReadCalibration([]byte(`{"schema":`)); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("half a file: %v", err)
	}
	for _, text := range []string{"", "{}", `{"schema":2}`, `{"schema":1}`, `{"schema":1,"x":1}`, `{"schema":1,"costs":{"schema":1,"source":"","stand_in":false,"copy":[{"bytes":1,"ns":1}],"register":[{"bytes":1,"ns":1}],"usage_lookup":[{"bytes":1,"ns":1}]},"transfer":[{"bytes":1,"ns":-1}]}`} {
		if _, err := ReadCalibration([]byte(text)); !errors.Is(err, ErrCalibration) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzReadCalibration(f *testing.F) {
	f.Add([]byte(`{"schema":1,"node":"n","device":"d","transfer":[{"bytes":8,"ns":1}],"costs":{"schema":1,"source":"","stand_in":false,"copy":[{"bytes":1,"ns":1}],"register":[{"bytes":1,"ns":1}],"usage_lookup":[{"bytes":1,"ns":1}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ReadCalibration(text)
		if err != nil {
			if !errors.Is(err, ErrCalibration) {
				t.Fatal(err)
			}
			return
		}
		var out bytes.Buffer
		if err := Explain(job(), c, effective(t, "auto")).WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
	})
}
