package launch_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/test/hosts"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// slurm is a cluster of real Slurm daemons on this machine, with its own
// configuration, that lasts as long as the test.
type slurm struct {
	dir string
	env []string
}

// slurmNode is a node: its name, its address, and how a command is started
// on it.
type slurmNode struct {
	name, address string
	on            func(args ...string) []string
}

// needSlurm skips the test unless it is asked for: it starts daemons as root.
func needSlurm(t *testing.T) {
	t.Helper()
	if os.Getenv("MPITRACE_TEST_SLURM") != "1" {
		t.Skip(mpijob.Missing("MPITRACE_TEST_SLURM=1", "make test-slurm starts Slurm's daemons on this machine"))
	}
	if err := mpijob.Tools("slurm-wlm munge", "munged", "slurmctld", "slurmd", "srun"); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Fatal(mpijob.Missing("the right to start slurmd", "run this test as root"))
	}
}

// oneNode is this machine as the only node.
func oneNode(t *testing.T) []slurmNode {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(host, ".")
	return []slurmNode{{name, "127.0.0.1", func(args ...string) []string { return args }}}
}

// newSlurm starts a cluster of nodes; the first is also the controller.
func newSlurm(t *testing.T, nodes []slurmNode) *slurm {
	t.Helper()
	needSlurm(t)
	// The path of a socket has at most 107 characters.
	dir, err := os.MkdirTemp("", "slurm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &slurm{dir: dir, env: append(environment(), "SLURM_CONF="+filepath.Join(dir, "slurm.conf"))}
	s.write(t, "munge.key", 0o400, strings.Repeat("an open secret, for this test only\n", 8))
	s.write(t, "slurm.conf", 0o644, s.configuration(nodes))
	s.daemon(t, nil, "munged", "--foreground", "--force", "--key-file="+s.path("munge.key"), "--socket="+s.path("munge.socket"),
		"--pid-file="+s.path("munged.pid"), "--log-file="+s.path("munged.log"), "--seed-file="+s.path("munge.seed"))
	waitFor(t, s.path("munge.socket"))
	s.daemon(t, s.env, nodes[0].on("slurmctld", "-D", "-i")...)
	for _, node := range nodes {
		// PMIx makes directories in it that are named after the job only.
		if err := os.Mkdir(s.path("tmp."+node.name), 0o777); err != nil {
			t.Fatal(err)
		}
		s.daemon(t, s.env, node.on("slurmd", "-D", "-N", node.name)...)
	}
	s.wait(t, nodes)
	return s
}

func (s *slurm) path(name string) string { return filepath.Join(s.dir, name) }

func (s *slurm) write(t *testing.T, name string, mode os.FileMode, text string) {
	t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// configuration is slurm.conf: no accounting, no cgroups, ports of its own.
func (s *slurm) configuration(nodes []slurmNode) string {
	ports := freePorts()
	text := fmt.Sprintf(`ClusterName=mpitrace
SlurmctldHost=%s(%s)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%s
CredType=cred/munge
SlurmctldPort=%d
SlurmdPort=%d
StateSaveLocation=%s
SlurmdSpoolDir=%s.%%n
SlurmctldPidFile=%s
SlurmdPidFile=%s.%%n
SlurmctldLogFile=%s
SlurmdLogFile=%s.%%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=3
SlurmdParameters=config_overrides
TmpFS=%s.%%n
`, nodes[0].name, nodes[0].address, s.path("munge.socket"), ports[0], ports[1], s.path("state"), s.path("spool"),
		s.path("slurmctld.pid"), s.path("slurmd.pid"), s.path("slurmctld.log"), s.path("slurmd.log"), s.path("tmp"))
	for _, node := range nodes {
		text += fmt.Sprintf("NodeName=%s NodeAddr=%s CPUs=8 RealMemory=1000 State=UNKNOWN\n", node.name, node.address)
	}
	return text + "PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
}

// freePorts are two ports that nobody listens on.
func freePorts() (ports [2]int) {
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return [2]int{16817, 16818}
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports
}

// daemon starts a daemon in the foreground and ends it after the test.
func (s *slurm) daemon(t *testing.T, env []string, args ...string) {
	t.Helper()
	log, err := os.OpenFile(s.path("daemons.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		killer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		killer.Stop()
	})
}

// wait waits until all nodes are idle.
func (s *slurm) wait(t *testing.T, nodes []slurmNode) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		args := nodes[0].on("sinfo", "-h", "-N", "-t", "idle", "-o", "%N")
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = s.env
		out, _ := cmd.CombinedOutput()
		if len(strings.Fields(string(out))) == len(nodes) {
			return
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(s.path("daemons.log"))
			t.Fatalf("Slurm does not start: %s\n%s", out, log)
		}
	}
}

// srun is the command that starts ranks of a program under Slurm.
func srun(m mpi, options string, words ...string) []string {
	pmi := map[string]string{"openmpi": "--mpi=pmix", "mpich": "--mpi=pmi2"}[m.Name]
	return slices.Concat([]string{"srun", pmi}, strings.Fields(options), words)
}

// TestSlurm: the launcher srun, on one node.
func TestSlurm(t *testing.T) {
	s := newSlurm(t, oneNode(t))
	for _, m := range mpis {
		for _, ending := range endings {
			t.Run(m.Name+"/"+ending, func(t *testing.T) {
				s.testEnding(t, srun(m, "-n 4 --kill-on-bad-exit", m.program(t), ending, fmt.Sprint(victim)))
			})
		}
	}
	t.Run("export", s.testExport)
	t.Run("batch", s.testBatch)
	t.Run("array", s.testArray)
	t.Run("at once", s.testAtOnce)
	t.Run("cancelled", s.testCancelled)
	t.Run("mpirun", s.testMpirun)
	t.Run("mpiexec", s.testMpiexec)
	t.Run("sbatch", s.testSbatchRefused)
	t.Run("agent", s.testAgent)
}

func (s *slurm) testEnding(t *testing.T, command []string) {
	dir := t.TempDir()
	alone := run(t, dir, s.env, command...)
	got := run(t, dir, s.env, traced(dir, command)...)
	// After a death srun gives the status of whichever task it hears of first.
	race := got.status != 0 && alone.status != 0 && !slices.Contains(command, "status")
	if got.status != alone.status && !race {
		t.Errorf("status %d, alone %d\n%s", got.status, alone.status, got.stderr)
	}
	wantLine(t, got, "result in out (4 ranks, 1 node)")
	wantRanks(t, filepath.Join(dir, "out"), 4)
	wantNoRest(t, dir)
}

// testExport: whatever the user says of the environment, the ranks have ours,
// and else what he said.
func (s *slurm) testExport(t *testing.T) {
	const show = `echo "${LD_PRELOAD:-none} ${MPITRACE_SKIP:-none} ${MINE:-none} ${GIVEN:-none}"`
	cases := []struct{ export, variable, want string }{
		{"", "", "a,b yes none"},
		{"--export=ALL", "", "a,b yes none"},
		{"--export=ALL,GIVEN=1", "", "a,b yes 1"},
		{"--export=NONE", "", "a,b none none"},
		{"--export=GIVEN=2", "", "a,b none 2"},
		{"--export=MINE,GIVEN=3", "", "a,b yes 3"},
		{"", "SLURM_EXPORT_ENV=NONE", "a,b none none"},
		{"", "SLURM_EXPORT_ENV=GIVEN=4", "a,b none 4"},
	}
	for _, c := range cases {
		t.Run(c.export+c.variable, func(t *testing.T) {
			dir := t.TempDir()
			args := []string{mpitrace, "run", "--shim", shim, "--skip", "a,b", "--", "srun", "-n", "1"}
			if c.export != "" {
				args = append(args, c.export)
			}
			env := append(slices.Clone(s.env), "MINE=yes", c.variable)
			got := run(t, dir, env, append(args, "/bin/sh", "-c", show)...)
			if want := shim + " " + c.want + "\n"; got.stdout != want {
				t.Errorf("environment of the rank %q, want %q\n%s", got.stdout, want, got.stderr)
			}
		})
	}
	dir, m := t.TempDir(), mpis[0]
	got := run(t, dir, s.env, traced(dir, srun(m, "-n 2 --export=NONE", m.program(t), "ok"))...)
	wantLine(t, got, "result in out (2 ranks, 1 node)")
	wantRanks(t, filepath.Join(dir, "out"), 2)
}

// batch runs a batch script to its end and returns the results below dir.
func (s *slurm) batch(t *testing.T, dir, body string, options ...string) []string {
	t.Helper()
	script := filepath.Join(dir, "job.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	args := slices.Concat([]string{"sbatch", "--wait", "-n", "2", "-D", dir}, options, []string{script})
	run(t, dir, s.env, args...)
	found, err := filepath.Glob(filepath.Join(dir, "mpitrace-*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		logs, _ := filepath.Glob(filepath.Join(dir, "slurm-*.out"))
		for _, log := range logs {
			text, _ := os.ReadFile(log)
			t.Logf("%s:\n%s", log, text)
		}
	}
	return found
}

// testBatch: mpitrace run in front of srun inside a batch script, which
// sbatch gave no environment.
func (s *slurm) testBatch(t *testing.T) {
	dir, m := t.TempDir(), mpis[0]
	body := strings.Join(append([]string{mpitrace, "run", "--shim", shim, "--"}, srun(m, "-n 2", m.program(t), "kill", "1")...), " ")
	found := s.batch(t, dir, "export SLURM_CONF="+s.path("slurm.conf")+"\n"+body, "--export=NONE")
	if len(found) != 1 {
		t.Fatalf("results %v, want one", found)
	}
	wantRanks(t, found[0], 2)
}

// testArray: the jobs of an array, by mpitrace run and by plain LD_PRELOAD, in
// one directory.
func (s *slurm) testArray(t *testing.T) {
	m := mpis[0]
	bodies := map[string][]string{
		"run":     append([]string{mpitrace, "run", "--shim", shim, "--"}, srun(m, "-n 2", m.program(t), "ok")...),
		"preload": append([]string{"LD_PRELOAD=" + shim}, srun(m, "-n 2", m.program(t), "ok")...),
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			found := s.batch(t, dir, strings.Join(body, " "), "--array=1-3")
			if len(found) != 3 {
				t.Fatalf("results %v, want three", found)
			}
			for _, result := range found {
				wantRanks(t, result, 2)
			}
		})
	}
}

// testAtOnce: two jobs at the same time in one directory.
func (s *slurm) testAtOnce(t *testing.T) {
	dir, m := t.TempDir(), mpis[0]
	args := append([]string{mpitrace, "run", "--shim", shim, "--"}, srun(m, "-n 2", m.program(t), "kill", "0")...)
	first, second := start(t, dir, s.env, args), start(t, dir, s.env, args)
	first.end(t)
	second.end(t)
	found, err := filepath.Glob(filepath.Join(dir, "mpitrace-*"))
	if err != nil || len(found) != 2 {
		t.Fatalf("results %v, %v, want two", found, err)
	}
	for _, result := range found {
		wantRanks(t, result, 2)
	}
}

// testCancelled: scancel ends the job; mpitrace run still gives the result.
func (s *slurm) testCancelled(t *testing.T) {
	dir, m := t.TempDir(), mpis[0]
	ready := filepath.Join(dir, "ready")
	p := start(t, dir, s.env, traced(dir, srun(m, "-n 4 -J cancelme", m.program(t), "wait", "0", ready)))
	waitFor(t, ready)
	run(t, dir, s.env, "scancel", "-n", "cancelme")
	got := p.end(t)
	if got.status == 0 {
		t.Error("status 0 of a cancelled job")
	}
	wantLine(t, got, "result in out (4 ranks, 1 node)")
	wantRanks(t, filepath.Join(dir, "out"), 4)
}

// testMpirun: Open MPI's mpirun inside an allocation.
func (s *slurm) testMpirun(t *testing.T) {
	dir, m := t.TempDir(), mpis[0]
	body := append([]string{mpitrace, "run", "--shim", shim, "--"}, m.launch(2, m.program(t), "kill", "1")...)
	found := s.batch(t, dir, strings.Join(body, " "))
	if len(found) != 1 {
		t.Fatalf("results %v, want one", found)
	}
	wantRanks(t, found[0], 2)
}

// testMpiexec: what Hydra starts twice at a time within a step is two worlds.
func (s *slurm) testMpiexec(t *testing.T) {
	dir, m := t.TempDir(), mpis[slices.IndexFunc(mpis, func(m mpi) bool { return m.Name == "mpich" })]
	line := strings.Join(m.launch(2, m.program(t), "ok"), " ")
	script := filepath.Join(dir, "step.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexport HYDRA_BOOTSTRAP=fork\n"+line+" &\n"+line+"\nwait\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	got := run(t, dir, s.env, append([]string{"srun", "-n", "1"}, traced(dir, []string{script})...)...)
	wantLine(t, got, "result in out (4 ranks, 1 node)")
	wantRanks(t, filepath.Join(dir, "out"), 2, 2)
}

// testSbatchRefused: sbatch only queues.
func (s *slurm) testSbatchRefused(t *testing.T) {
	got := run(t, t.TempDir(), s.env, mpitrace, "run", "--shim", shim, "--", "sbatch", "job.sh")
	if got.status != 2 {
		t.Errorf("status %d, want 2", got.status)
	}
	wantLine(t, got, "inside the batch script")
}

// TestSlurmHosts: two nodes that do not share memory. In an allocation another
// step reaches them, without one another job on the nodes that srun's prolog
// noted.
func TestSlurmHosts(t *testing.T) {
	needSlurm(t)
	h := hosts.New(t, 2)
	var nodes []slurmNode
	for i, name := range h.Names {
		nodes = append(nodes, slurmNode{name, fmt.Sprintf("10.89.7.%d", i+1), func(args ...string) []string { return h.On(i, args...) }})
	}
	s := newSlurm(t, nodes)
	s.env = append(s.env, "OMPI_MCA_btl=self,tcp,vader", "OMPI_MCA_pml=ob1", "OMPI_MCA_btl_tcp_if_include=eth0", "UCX_TLS=tcp,self")
	for _, m := range mpis {
		program := m.program(t)
		for _, ending := range append(m.quiet(), "kill 0", "kill 3", "abort 1") {
			t.Run(m.Name+"/srun/"+ending, func(t *testing.T) {
				dir := t.TempDir()
				s.wait(t, nodes)
				command := srun(m, "-N 2 -n 4 --kill-on-bad-exit", append([]string{program}, strings.Fields(ending)...)...)
				got := run(t, dir, s.env, h.OnIn(0, dir, traced(dir, command)...)...)
				wantLine(t, got, "result in out (4 ranks, 2 nodes)")
				wantRanks(t, filepath.Join(dir, "out"), 4)
				wantEmpty(t, h)
			})
			t.Run(m.Name+"/salloc/"+ending, func(t *testing.T) {
				dir := t.TempDir()
				command := srun(m, "--kill-on-bad-exit", append([]string{program}, strings.Fields(ending)...)...)
				alloc := append([]string{"salloc", "-Q", "-N", "2", "-n", "4"}, traced(dir, command)...)
				got := run(t, dir, s.env, h.OnIn(0, dir, alloc...)...)
				wantLine(t, got, "result in out (4 ranks, 2 nodes)")
				wantRanks(t, filepath.Join(dir, "out"), 4)
				wantEmpty(t, h)
			})
		}
	}
}
