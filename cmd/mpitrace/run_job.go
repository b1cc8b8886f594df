package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/internal/knobs"
	"github.com/mpitrace/mpitrace/internal/launch"
	"github.com/mpitrace/mpitrace/internal/launch/harvest"
	"github.com/mpitrace/mpitrace/internal/presence"
	"github.com/mpitrace/mpitrace/policy"
	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/segment"
	"golang.org/x/sys/unix"
)

// job is one run of a command.
type job struct {
	id, dir  string // dir is absolute
	self     string // this executable
	settings map[string]string
	policy   *policy.Effective // nil: the job does not act
	advises  bool              // at the end, what would pay
	wait     time.Duration

	shimGiven    bool   // the user chose the shim
	memory       bool   // watch the ranks' memory
	memorySocket string // where they ask for that, if not where they look anyway

	quiet  bool
	stderr io.Writer

	command []string // as the user gave it
	plan    *launch.Plan
	kind    launch.Kind
	said    bool   // a line has said that nothing will be seen
	doubt   string // why a program may show no MPI calls
	start   time.Time
	ended   launch.Ended
	meeting *presence.Server // of act mode, else nil
}

// say writes a line for the user.
func (j *job) say(format string, args ...any) {
	if !j.quiet {
		fmt.Fprintf(j.stderr, "mpitrace: "+format+"\n", args...)
	}
}

// run rewrites and runs the command, collects, and reports where the result
// is. The error is the exit status of the command.
func (j *job) run(kind launch.Kind, shim string, args []string) error {
	// A line that nobody reads any more is not the end of a job.
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, unix.SIGPIPE)
	defer signal.Stop(unread)
	if err := j.meet(); err != nil {
		return err
	}
	defer j.part()
	if j.memory {
		defer j.watchMemory()()
	}
	plan, err := j.prepare(launch.Request{
		Kind: kind, Args: args, Env: os.Environ(), Preload: shim, Set: j.variables(), Self: j.self,
		TempFile: filepath.Join(os.TempDir(), "mpitrace-"+j.id+".app"),
	})
	if err != nil {
		return err
	}
	made, err := launch.PrepareOutput(j.dir)
	if err != nil {
		return err
	}
	j.command, j.plan, j.kind, j.start = args, plan, kind, time.Now()
	j.inspect()
	signals := launch.Catch()
	defer signals.Stop()
	ended, err := j.execute(signals)
	if err != nil {
		j.plan.RecallNodes(j.dir)
		if made {
			os.Remove(j.dir)
		}
		return err
	}
	j.ended = ended
	ctx, end := signals.Context()
	defer end()
	j.finish(ctx, made)
	if status := ended.Status(); status != 0 {
		return exitStatus(status)
	}
	return nil
}

// prepare rewrites the command, twice: the first time tells its programs, and these what
// they need to be given.
func (j *job) prepare(r launch.Request) (*launch.Plan, error) {
	plan, err := launch.Make(r)
	if err != nil {
		return nil, err
	}
	words := slices.Concat(r.Args, plan.Programs)
	if !j.shimGiven {
		launcher, _ := launch.LookPath(r.Args[0])
		r.Preload = launch.ChooseShim(r.Preload, r.Kind, launcher, words, r.Env)
	}
	switch setting, err := launch.AllowSanitizer(words, r.Env); {
	case err != nil:
		j.say("%v", err)
	case setting != "":
		r.Set = append(r.Set, setting)
	}
	return launch.Make(r)
}

// meet opens the place where the ranks of act mode report.
func (j *job) meet() (err error) {
	if j.policy == nil {
		return nil
	}
	seconds, err := strconv.Atoi(orDefault(j.settings["act_wait"], defaultOf("act_wait")))
	if err != nil {
		return fmt.Errorf("act_wait: %w", err)
	}
	j.meeting, err = presence.Listen(time.Duration(seconds)*time.Second, func(v presence.Verdict) {
		if !v.Act {
			j.say("act mode is off, the job is only observed: %s", v.Reason)
		}
	})
	return err
}

// part closes it, and says who came that had no business there.
func (j *job) part() {
	if j.meeting == nil {
		return
	}
	j.meeting.Close()
	for why, n := range j.meeting.Refused() {
		j.say("act mode: %d connections to the rendezvous were refused: %s", n, why)
	}
}

// variables are the settings as the ranks read them.
func (j *job) variables() []string {
	set := []string{"MPITRACE_JOB_ID=" + j.id, "MPITRACE_OUTPUT=" + j.dir}
	if j.memorySocket != "" {
		set = append(set, memorySocketVariable+"="+j.memorySocket)
	}
	for _, k := range knobs.All {
		if value, ok := j.settings[k.Name]; ok && k.Side == "shim" && k.Name != "output" {
			set = append(set, k.Env+"="+value)
		}
	}
	if j.meeting != nil {
		set = append(set, j.meeting.Variables()...)
		set = append(set, "MPITRACE_ACT_POLICY="+j.policy.Word())
	}
	return set
}

// inspect looks at the programs of the job before they start.
func (j *job) inspect() {
	for _, program := range j.plan.Programs {
		switch visibility, why := launch.Inspect(program); visibility {
		case launch.Unreachable:
			j.say("%s: LD_PRELOAD has no effect on it, so its MPI calls will not be seen; it runs all the same", why)
			j.said = true
		case launch.NotLinked:
			j.doubt = why
		}
	}
}

// execute runs the rewritten command with the files it needs.
func (j *job) execute(signals launch.Signals) (launch.Ended, error) {
	for name, content := range j.plan.Files {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return launch.Ended{}, fmt.Errorf("copy of the application file: %w", err)
		}
		defer os.Remove(name)
	}
	ended, err := launch.Run(j.plan.Args, j.plan.Env, signals)
	if err != nil {
		fmt.Fprintf(j.stderr, "mpitrace: %v\n", err)
		return ended, exitStatus(ended.Status())
	}
	return ended, nil
}

// finish collects, writes down what the job was and says where its result is. It
// waits for others no longer than until ctx ends.
func (j *job) finish(ctx context.Context, made bool) {
	s := j.collect(ctx)
	j.plan.RecallNodes(j.dir)
	c, err := takeCensus(j.dir)
	if (!c.complete() || c.nodes > 1 && c.unclean) && !j.said {
		if err := j.sweep(ctx); err != nil {
			j.say("the other nodes could not be asked for what killed ranks left: %v; on each: mpitrace collect --job %s -o %s", err, j.id, j.dir)
		}
		c, err = takeCensus(j.dir)
	}
	if c.ranks == 0 {
		j.nothing(made, s, err)
		return
	}
	if err := j.writeJob(); err != nil {
		j.say("%v", err)
	}
	if err := report.WriteSymbols(j.dir); err != nil {
		j.say("source lines: %v", err)
	}
	if j.meeting != nil && len(j.meeting.Verdicts()) == 0 {
		j.say("act mode is off, the job is only observed: no rank came to the end of MPI_Init (sessions are only observed)")
	}
	j.say("%s", c.line(shortPath(j.dir), j.id, s.Alive))
	if j.advises && !j.quiet {
		if err := newAdviceOptions().run(j.dir, j.stderr, j.stderr); err != nil {
			j.say("what would pay: %v", err)
		}
	}
}

// bases are the base directories of segments of this job.
func (j *job) bases() []string {
	if dir := j.settings["segment_dir"]; dir != "" {
		return []string{dir}
	}
	return segment.BaseDirs()
}

// keeps tells whether the segments stay in shared memory.
func (j *job) keeps() bool { return j.settings["keep_segments"] == "1" }

// collect waits for processes of the job that outlive the launcher, at most
// as long as allowed, and collects the dead.
func (j *job) collect(ctx context.Context) harvest.Summary {
	s, err := harvest.Collect(ctx, harvest.Options{
		Bases: j.bases(), Job: j.id, Keep: j.keeps(), Wait: j.wait,
		Output: func(string) string { return j.dir }, Writer: "mpitrace run " + programVersion(),
	})
	switch {
	case s.Unwritten > 0:
		j.say("the result could not be written: %s; what was measured is in shared memory: mpitrace collect --job %s -o DIR", oneLine(err), j.id)
	case err != nil:
		j.say("collecting: %s", oneLine(err))
	}
	return s
}

// sweepTimeout bounds the time that the launcher may take to reach the nodes
// of the job once more.
const sweepTimeout = 60 * time.Second

// sweepTries is how often the launcher is started to reach them. Under load,
// Hydra's mpiexec dies of SIGPIPE now and then when its proxies end quickly.
const sweepTries = 3

// sweep collects on all nodes of the job by means of its launcher.
func (j *job) sweep(ctx context.Context) error {
	collect := []string{j.self, "collect", "--quiet", "--job", j.id, "-o", j.dir, "--wait", j.wait.String()}
	if dir := j.settings["segment_dir"]; dir != "" {
		collect = append(collect, "--segment-dir", dir)
	}
	if j.keeps() {
		collect = append(collect, "--keep-segments")
	}
	args := j.plan.Sweep(collect...)
	if args == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, j.wait+sweepTimeout)
	defer cancel()
	var err error
	for range sweepTries {
		var out []byte
		if out, err = launch.Output(ctx, args[0], args[1:]...); err == nil {
			return nil
		}
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		err = fmt.Errorf("%s: %w: %s", args[0], cmp.Or(context.Cause(ctx), err), first)
	}
	return err
}

// nothing says why there is no result, and leaves no empty directory behind.
// unread is why a result could not be read, nil if there is none.
func (j *job) nothing(made bool, s harvest.Summary, unread error) {
	if made {
		os.Remove(j.dir)
	}
	switch {
	case j.said, s.Unwritten > 0:
		return
	case unread != nil:
		j.say("the result cannot be read: %v", unread)
		return
	case s.Damaged > 0:
		j.say("there is no result: %s cannot be read", plural(s.Damaged, "segment"))
		return
	}
	why := "no process called MPI_Init with the library preloaded"
	switch {
	case s.Alive > 0:
		why = fmt.Sprintf("its %d processes still run: mpitrace collect --job %s -o %s when they have ended", s.Alive, j.id, j.dir)
	case j.settings["mode"] == "off":
		why = "the mode is off"
	case j.doubt != "":
		why = j.doubt + ", and loaded none"
	case j.ended.Status() != 0:
		why = fmt.Sprintf("it ended with status %d before MPI_Init", j.ended.Status())
	}
	j.say("no MPI call was seen, so there is no result: %s", why)
}

// jobFile is job.json.
type jobFile struct {
	Schema     int               `json:"schema"`
	Job        string            `json:"job"`
	Command    []string          `json:"command"`
	Launcher   string            `json:"launcher"`
	Directory  string            `json:"directory"`
	Host       string            `json:"host"`
	Processors int               `json:"processors"` // of host, that this process may use
	Start      time.Time         `json:"start"`
	End        time.Time         `json:"end"`
	ExitStatus int               `json:"exit_status"`
	Signal     string            `json:"signal,omitempty"`
	Version    string            `json:"version"`
	Settings   map[string]string `json:"settings,omitempty"`
	// Act is what the ranks of each MPI_COMM_WORLD were told in act mode.
	Act []presence.Verdict `json:"act,omitempty"`
}

// writeJob writes job.json.
func (j *job) writeJob() error {
	host, _ := os.Hostname()
	directory, _ := os.Getwd()
	file := jobFile{
		Schema: 1, Job: j.id, Command: j.command, Launcher: string(j.kind), Directory: directory, Host: host, Processors: runtime.NumCPU(),
		Start: j.start.UTC(), End: time.Now().UTC(), ExitStatus: j.ended.Status(), Version: programVersion(), Settings: j.settings,
	}
	if j.meeting != nil {
		file.Act = j.meeting.Verdicts()
	}
	if j.ended.Signal != 0 {
		file.Signal = unix.SignalName(j.ended.Signal)
	}
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return fmt.Errorf("job.json: %w", err)
	}
	temporary := filepath.Join(j.dir, ".job.json")
	if err := os.WriteFile(temporary, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("result directory: %w", err)
	}
	return os.Rename(temporary, filepath.Join(j.dir, "job.json"))
}
