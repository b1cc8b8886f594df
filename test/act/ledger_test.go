package act

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// hashOf is the hash of a policy, as mpitrace policy show prints it.
func hashOf(t *testing.T, policy string) string {
	t.Helper()
	out, err := exec.Command(tool(t), "policy", "show", "--lines", policy).Output()
	_, rest, found := strings.Cut(string(out), "\nhash=")
	hash, _, _ := strings.Cut(rest, "\n")
	if err != nil || !found || len(hash) != 32 {
		t.Fatalf("mpitrace policy show --lines %s: %v, %q", policy, err, out)
	}
	return hash
}

// decided requires the one verdict of a result to be that so many ranks act, by the
// policy with this hash.
func decided(t *testing.T, output, hash string, ranks int) {
	t.Helper()
	var job struct {
		Act []struct {
			Act    bool
			Ranks  int
			Policy string
		}
	}
	readJSON(t, filepath.Join(output, "job.json"), &job)
	if len(job.Act) != 1 || !job.Act[0].Act || job.Act[0].Ranks != ranks || job.Act[0].Policy != hash {
		t.Errorf("job.json says %+v, want that %d ranks act by %s", job.Act, ranks, hash)
	}
}

// ledger is what a rank has left behind, of which this is read here.
type ledger struct {
	Rank   int
	Device string
	Policy []string
	Counts map[string]uint64
	Left   map[string]uint64
	Peers  struct {
		ByConnection    uint64 `json:"by_connection"`
		ByDatagrams     uint64 `json:"by_datagrams"`
		Idle            uint64
		ConnectionBytes uint64 `json:"connection_bytes"`
		DatagramsBytes  uint64 `json:"datagrams_bytes"`
		SharedBytes     uint64 `json:"datagrams_shared_bytes"`
	}
	Memory struct {
		PageBytes         int    `json:"page_bytes"`
		ResidentPages     uint64 `json:"resident_pages"`
		MostResidentPages uint64 `json:"most_resident_pages"`
	}
}

// checkPeers requires the ledger to have so many peers, all of which exchanged
// messages, and what each of them took: by connection, or by datagrams first with one
// connection at most.
func (l *ledger) checkPeers(t *testing.T, policy string, peers uint64, datagrams bool) {
	t.Helper()
	p, m := l.Peers, l.Memory
	right := p.ByConnection == peers && p.ByDatagrams == 0 && p.SharedBytes == 0
	if datagrams {
		right = p.ByConnection <= 1 && p.ByConnection+p.ByDatagrams == peers && p.SharedBytes > 0
	}
	const least, most = 256 << 10, 4 << 20 // a window of messages each way
	right = right && p.Idle == 0 && p.ConnectionBytes >= least && p.ConnectionBytes <= most && p.DatagramsBytes > 0 && p.DatagramsBytes < p.ConnectionBytes/4
	if !right || m.PageBytes != os.Getpagesize() || m.ResidentPages == 0 || m.ResidentPages > m.MostResidentPages {
		t.Errorf("%s: rank %d of %d has peers %+v, memory %+v", policy, l.Rank, peers+1, p, m)
	}
}

// ledgers are those of all ranks of the one job of a result.
func ledgers(t *testing.T, output string, ranks int) []ledger {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(output, "act-*.json"))
	if err != nil || len(files) != ranks {
		t.Fatalf("%d act-*.json in %s, want %d: %v", len(files), output, ranks, err)
	}
	all := make([]ledger, ranks)
	for i, file := range files {
		readJSON(t, file, &all[i])
	}
	return all
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
