// Package agent_test runs mpitrace agent beside real MPI jobs, and has a real
// Prometheus and a real node_exporter read it.
package agent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// limit bounds every wait; it only serves to end a test that hangs.
const limit = 5 * time.Minute

// paths of what is tested, made by TestMain.
var mpitrace, shim, scratch string

func TestMain(m *testing.M) { os.Exit(mpijob.Main(m, prepare)) }

func prepare(dir string) (err error) {
	scratch = dir
	if mpitrace, err = mpijob.BuildCommand(dir); err == nil {
		shim, err = mpijob.CopyBuilt(dir, "libmpishim.so")
	}
	return err
}

// program compiles work.c for an MPI.
func program(t *testing.T, m mpijob.MPI) string {
	t.Helper()
	if shim == "" {
		mpijob.Need(t, mpijob.Missing("build/libmpishim.so", "make build"))
	}
	mpijob.Need(t, m.Missing())
	path := filepath.Join(scratch, "work."+m.Name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := mpijob.Compile(m.CC, path, "testdata/work.c"); err != nil {
		t.Fatal(err)
	}
	return path
}

// daemon runs a program until the test ends.
func daemon(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		killer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		killer.Stop()
		if t.Failed() {
			t.Logf("%s:\n%s", args[0], log.String())
		}
	})
}

// freeAddress is an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !so(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so within %v: %s", limit, what)
		}
	}
}

// get reads a page; empty if it cannot be had yet.
func get(url string) string {
	client := http.Client{Timeout: time.Minute}
	response, err := client.Get(url)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return string(body)
}

// site is an agent of its own base directory, and who reads it.
type site struct {
	base, agent, prometheus string
}

// newSite starts an agent.
func newSite(t *testing.T, more ...string) *site {
	t.Helper()
	base, err := os.MkdirTemp("/dev/shm", "mpitrace-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	s := &site{base: base, agent: freeAddress(t)}
	daemon(t, append([]string{mpitrace, "agent", "--all-users", "--segment-dir", base, "--web.listen-address", s.agent}, more...)...)
	eventually(t, "the agent answers", func() bool { return get(s.page()) != "" })
	return s
}

func (s *site) page() string { return "http://" + s.agent + "/metrics" }

// scrape starts a Prometheus that reads the agent, with the rules of packaging/.
func (s *site) scrape(t *testing.T) {
	t.Helper()
	mpijob.Need(t, mpijob.Tools("prometheus", "prometheus", "promtool"))
	rules, err := filepath.Abs("../../packaging/prometheus")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := fmt.Sprintf(`global: {scrape_interval: 500ms, evaluation_interval: 1s}
rule_files: [%s/rules.yml, %s/alerts.yml]
scrape_configs:
  - job_name: mpitrace
    static_configs: [{targets: [%q]}]
`, rules, rules, s.agent)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	s.prometheus = freeAddress(t)
	daemon(t, "prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+s.prometheus)
	eventually(t, "Prometheus has scraped the agent", func() bool {
		up, ok := s.query(t, "up")
		return ok && up == 1
	})
}

// query asks Prometheus for a number, false if it has none.
func (s *site) query(t *testing.T, expression string) (float64, bool) {
	t.Helper()
	var answer struct {
		Status, Error string
		Data          struct{ Result []struct{ Value [2]any } }
	}
	text := get("http://" + s.prometheus + "/api/v1/query?query=" + url.QueryEscape(expression))
	if json.Unmarshal([]byte(text), &answer) != nil {
		return 0, false // it is still starting
	}
	if answer.Status != "success" {
		t.Fatalf("%s: %s", expression, text)
	}
	if len(answer.Data.Result) != 1 {
		return 0, false
	}
	v, err := strconv.ParseFloat(fmt.Sprint(answer.Data.Result[0].Value[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v, true
}

// begin starts a job under mpitrace run, with its result in dir/out.
func (s *site) begin(t *testing.T, m mpijob.MPI, dir string, ranks int, words ...string) *mpijob.Running {
	t.Helper()
	launch := mpijob.Job{MPI: m, Ranks: ranks, Argv: append([]string{program(t, m)}, words...)}.Command()
	args := append([]string{mpitrace, "run", "--shim", shim, "--segment-dir", s.base, "-o", filepath.Join(dir, "out"), "--"}, launch...)
	p, err := mpijob.Start(limit, dir, mpijob.Environ(), args, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func finish(t *testing.T, p *mpijob.Running) {
	t.Helper()
	if out, err := p.Wait(); err != nil || out.Status != 0 {
		t.Fatalf("status %d, %v\n%s", out.Status, err, out.Stderr)
	}
}

// result is the part of a report that the page must agree with.
type result struct {
	Job struct {
		ID    string
		Ranks int
		MPINS uint64 `json:"mpi_ns"`
	}
	Functions []struct {
		Name                 string
		Calls, Bytes, TimeNS uint64
		Time                 uint64 `json:"time_ns"`
	}
	Ranks []struct {
		Wall uint64 `json:"wall_ns"`
	}
	Arrivals []struct {
		Waiting struct{ NS float64 }
	}
}

// report reads the result in dir/out by mpitrace report.
func report(t *testing.T, dir string) (r result) {
	t.Helper()
	out, err := exec.Command(mpitrace, "report", "--json", filepath.Join(dir, "out")).Output()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}
