package agent_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

const packaging = "../../packaging/"

// promtool runs it on files of packaging/prometheus.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	mpijob.Need(t, mpijob.Tools("prometheus", "promtool"))
	if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

// TestRules: recording rules and alerts are sound, and fire when they should.
func TestRules(t *testing.T) {
	rules, alerts := packaging+"prometheus/rules.yml", packaging+"prometheus/alerts.yml"
	promtool(t, "check", "rules", rules, alerts)
	promtool(t, "test", "rules", packaging+"prometheus/tests.yml")
	for _, file := range []string{rules, alerts} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		knownNames(t, file, string(text))
	}
	promtool(t, "check", "config", "--syntax-only", packaging+"prometheus/scrape.yml")
}

var metricName = regexp.MustCompile(`\bmpitrace(?:_[a-z_]+|:[a-z0-9_:]+)`)

// knownNames demands that every metric in a text exists.
func knownNames(t *testing.T, where, text string) {
	t.Helper()
	var spec struct{ Metrics []struct{ Name string } }
	data, err := os.ReadFile("../../spec/metrics.json")
	if err == nil {
		err = json.Unmarshal(data, &spec)
	}
	rules, ruleErr := os.ReadFile(packaging + "prometheus/rules.yml")
	if err != nil || ruleErr != nil {
		t.Fatal(err, ruleErr)
	}
	known := map[string]bool{}
	for _, m := range spec.Metrics {
		known[m.Name] = true
	}
	for _, m := range regexp.MustCompile(`record: (\S+)`).FindAllStringSubmatch(string(rules), -1) {
		known[m[1]] = true
	}
	for _, name := range metricName.FindAllString(text, -1) {
		if !known[name] {
			t.Errorf("%s: there is no metric %s", where, name)
		}
	}
}

// dashboard is the part of a Grafana dashboard that is looked at.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct{ List []struct{ Name string } }
	Panels        []struct {
		ID          int
		Type, Title string
		Description string
		GridPos     struct{ X, Y, W, H int }
		Datasource  struct{ UID string }
		Targets     []struct{ Expr, RefID string }
	}
}

// TestDashboard: every panel has its own place and a title, and its queries are
// PromQL about metrics that exist.
func TestDashboard(t *testing.T) {
	data, err := os.ReadFile(packaging + "grafana/mpitrace.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 39 || len(d.Panels) < 15 {
		t.Errorf("dashboard %q %q, version %d, %d panels", d.UID, d.Title, d.SchemaVersion, len(d.Panels))
	}
	ids, cells := map[int]bool{}, map[[2]int]string{}
	rules := "groups:\n- name: panels\n  rules:\n"
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q: id twice, no title, or too wide", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, taken := cells[cell]; taken {
					t.Fatalf("panels %q and %q overlap", p.Title, other)
				}
				cells[cell] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Description == "" || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %q: no query, no description, or a data source of its own", p.Title)
		}
		for _, target := range p.Targets {
			knownNames(t, p.Title, target.Expr)
			expr := strings.NewReplacer("$__rate_interval", "5m", "$user", ".*", "$jobid", ".*").Replace(target.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("panel %q: a variable that is not known in %s", p.Title, expr)
			}
			rules += fmt.Sprintf("  - record: panel:p%d_%s\n    expr: %q\n", p.ID, target.RefID, expr)
		}
	}
	file := filepath.Join(t.TempDir(), "panels.yml")
	if err := os.WriteFile(file, []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}

// unit is a systemd unit, with the program that is tested.
func unit(t *testing.T, name string) (path, text string) {
	t.Helper()
	data, err := os.ReadFile(packaging + "systemd/" + name)
	if err != nil {
		t.Fatal(err)
	}
	text = strings.Replace(string(data), "/usr/bin/mpitrace", mpitrace, 1)
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path, text
}

// exposureMost is what systemd-analyze may give a unit: 3.0. It counts that the
// agent is root, sees all processes and has a network, which it needs; and that
// the memory monitor loads programs into the kernel.
const exposureMost = "30"

// TestUnit: systemd has nothing to say against the units.
func TestUnit(t *testing.T) {
	mpijob.Need(t, mpijob.Tools("systemd", "systemd-analyze"))
	for _, name := range []string{"mpitrace-agent.service", "mpitrace-memmon.service"} {
		path, _ := unit(t, name)
		for _, args := range [][]string{{"verify", "--man=no", path}, {"security", "--offline=true", "--no-pager", "--threshold=" + exposureMost, path}} {
			out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
			if err != nil || args[0] == "verify" && len(out) > 0 {
				t.Errorf("systemd-analyze %v: %v\n%s", args, err, out)
			}
		}
	}
}

// TestCapabilities: with the few rights that the unit leaves to root, the agent
// reads the segments and the environment of another user's process.
func TestCapabilities(t *testing.T) {
	if os.Geteuid() != 0 {
		mpijob.Need(t, mpijob.Missing("the right to act as other users", "run this test as root"))
	}
	mpijob.Need(t, mpijob.Tools("util-linux", "setpriv"))
	_, text := unit(t, "mpitrace-agent.service")
	_, after, _ := strings.Cut(text, "\nCapabilityBoundingSet=")
	line, _, _ := strings.Cut(after, "\n")
	rights := "-all"
	for _, name := range strings.Fields(line) {
		rights += ",+" + strings.ToLower(strings.TrimPrefix(name, "CAP_"))
	}
	top, err := os.MkdirTemp("/dev/shm", "mpitrace-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	address := freeAddress(t)
	daemon(t, "setpriv", "--bounding-set", rights, "--inh-caps", "-all", "--no-new-privs", mpitrace, "agent", "--all-users",
		"--segment-dir", filepath.Join(top, "mpitrace-*"), "--web.listen-address", address)
	url := "http://" + address + "/metrics"
	eventually(t, "the agent answers", func() bool { return get(url) != "" })

	const uid = 1001
	rank := exec.Command("sleep", "600")
	rank.Env = []string{"SLURM_JOB_ID=4711", "SLURM_STEP_ID=2", "PATH=/usr/bin"}
	rank.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, Pdeathsig: syscall.SIGKILL}
	if err := rank.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = rank.Process.Kill()
		_ = rank.Wait()
	})
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", rank.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	start := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))[19]
	base := filepath.Join(top, fmt.Sprint("mpitrace-", uid))
	dir := filepath.Join(base, "run")
	file := filepath.Join(dir, fmt.Sprintf("%d-%s.seg", rank.Process.Pid, start))
	hidden := filepath.Join(top, "hidden")
	for _, err := range []error{
		os.Mkdir(hidden, 0o700), os.Mkdir(filepath.Join(hidden, "run"), 0o700),
		os.WriteFile(filepath.Join(hidden, "run", filepath.Base(file)), synth.Job{ID: "run", Ranks: 1}.Segment(0).Bytes(), 0o600),
		os.Chown(filepath.Join(hidden, "run", filepath.Base(file)), uid, uid), os.Chown(filepath.Join(hidden, "run"), uid, uid), os.Chown(hidden, uid, uid),
		os.Rename(hidden, base),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the job is shown under the id of the batch system", func() bool {
		return sumWith(t, get(url), "mpitrace_job_calls_total", `jobid="4711"`) > 0
	})
	if page := get(url); !strings.Contains(page, `scheduler="slurm"`) || !strings.Contains(page, `step="2",user="1001"`) {
		t.Errorf("labels of the job:\n%s", page)
	}
}
