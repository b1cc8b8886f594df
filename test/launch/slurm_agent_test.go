package launch_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// testAgent: the agent calls jobs and steps as Slurm does, also those that are
// over in a moment; by mpitrace run and by plain LD_PRELOAD.
func (s *slurm) testAgent(t *testing.T) {
	socket := filepath.Join(s.dir, "agent")
	s.daemon(t, s.env, mpitrace, "agent", "--web.listen-address", "unix:"+socket)
	waitFor(t, socket)
	for _, m := range mpis {
		program := m.program(t)
		dir := t.TempDir()
		traced := strings.Join(append([]string{mpitrace, "run", "--shim", shim, "-o", filepath.Join(dir, "out"), "--"}, srun(m, "-n 2", program, "ok")...), " ")
		plain := "LD_PRELOAD=" + shim + " " + strings.Join(srun(m, "-n 2", program, "ok"), " ")
		s.batch(t, dir, "echo $SLURM_JOB_ID >id\n"+traced+"\n"+plain)
		id := strings.TrimSpace(run(t, dir, s.env, "cat", "id").stdout)
		for step, name := range map[string]string{"0": `[^"]+-[0-9]+`, "1": "slurm-" + id + `\.1`} {
			want := regexp.MustCompile(`(?m)^mpitrace_job_info\{jobid="` + id + `",launcher="slurm",mpi="` + m.Name + `",node="[^"]+",program="rank\.` + m.Name +
				`",run="` + name + `",scheduler="slurm",step="` + step + `",user="root"\} 1$`)
			page := agentPage(t, socket)
			for end := time.Now().Add(limit); !want.MatchString(page); page = agentPage(t, socket) {
				if time.Now().After(end) {
					t.Fatalf("no step %s of job %s (%s) on the page:\n%s", step, id, want, page)
				}
				time.Sleep(200 * time.Millisecond)
			}
		}
	}
}

// agentPage reads the page of an agent from its socket.
func agentPage(t *testing.T, socket string) string {
	t.Helper()
	client := http.Client{Timeout: limit, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	response, err := client.Get("http://localhost/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}
