package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

func TestOrigin(t *testing.T) {
	for environ, want := range map[string]origin{
		"SLURM_JOB_ID=17\x00SLURM_STEP_ID=3\x00PMIX_NAMESPACE=slurm.pmix.17.3\x00": {"slurm", "17", "3"},
		"SLURM_JOB_ID=17\x00SLURM_STEP_ID=4294967291":                              {"slurm", "17", "batch"},
		"PBS_JOBID=17[4].head.site.org\x00":                                        {"pbs", "17[4].head.site.org", ""},
		"LSB_JOBID=9\x00LSB_JOBINDEX=0":                                            {"lsf", "9", ""},
		"PMIX_NAMESPACE=prterun-host-123@1":                                        {"pmix", "prterun-host-123@1", ""},
		"SLURM_JOB_ID=1\n2\"}\x00SLURM_JOB_ID=2":                                   {"slurm", "1_2__", ""},
		"HOME=/root\x00XSLURM_JOB_ID=1\x00SLURM_JOB_ID\x00":                        {},
		"": {},
	} {
		if got := originOf([]byte(environ)); got != want {
			t.Errorf("%q: %+v, want %+v", environ, got, want)
		}
	}
}

func TestOriginOfHeader(t *testing.T) {
	for _, test := range []struct {
		job, world, launcher string
		want                 origin
	}{
		{"slurm-17.3", "17.3", "slurm", origin{"slurm", "17", "3"}},
		{"20260102-node-7", "slurm.pmix.17.3", "slurm", origin{"slurm", "17", "3"}},
		{"20260102-node-7", "17.3", "slurm", origin{"slurm", "17", "3"}},
		{"20260102-node-7", "1363738625", "slurm", origin{}},
		{"pmix-1363738625", "1363738625", "openmpi", origin{"pmix", "1363738625", ""}},
		{"pid-7-8", "7-8", "none", origin{}},
	} {
		s := synth.Job{ID: test.job, Ranks: 1}.Segment(0)
		synth.SetText(s.Header.World[:], test.world)
		synth.SetText(s.Header.Launcher[:], test.launcher)
		if got := originOfHeader(&s.Header); got != test.want {
			t.Errorf("%+v: %+v", test, got)
		}
	}
}

// TestEnviron: only the process that a segment is named after, and only of the
// same user.
func TestEnviron(t *testing.T) {
	s := synth.Job{ID: "j", Ranks: 1}.Segment(0)
	live(t, s)
	name := func(start uint64) string { return fmt.Sprintf("%d-%d.seg", s.Header.PID, start) }
	uid := uint32(os.Getuid())
	if environOf(name(s.Header.PIDStart), uid) == nil || !segment.AliveByName(name(s.Header.PIDStart)) {
		t.Error("not that of this process")
	}
	if environOf(name(s.Header.PIDStart), uid+1) != nil {
		t.Error("that of another user's process")
	}
	for _, bad := range []string{name(s.Header.PIDStart + 1), "x.seg", "../self-1.seg", "-.seg", "self-0.seg"} {
		if environOf(bad, uid) != nil || segment.AliveByName(bad) {
			t.Errorf("%s names a process", bad)
		}
	}
}

// TestUserLater: a user whom the directory service does not know is asked for again,
// later; a job keeps the name that it was shown with.
func TestUserLater(t *testing.T) {
	const uid = 4_200_000_017
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	getent := func(script string) {
		must(t, os.WriteFile(filepath.Join(dir, "getent"), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	var u users
	getent("exit 2")
	if name := u.name(uid); name != "4200000017" {
		t.Errorf("unknown: %s", name)
	}
	getent("echo carol:x:4200000017:1::/:/bin/sh")
	if name := u.name(uid); name != "4200000017" {
		t.Errorf("asked again at once: %s", name)
	}
	u.failed[uid] = u.failed[uid].Add(-lookUpAgain)
	if name := u.name(uid); name != "carol" {
		t.Errorf("asked again later: %s", name)
	}

	base := newBase(t)
	a := start(t, base, nil)
	call := func(name string) {
		a.users.mu.Lock()
		defer a.users.mu.Unlock()
		a.users.known[uint32(os.Getuid())] = name
	}
	call("1000")
	lay(t, base, synth.Job{ID: "first", Ranks: 1})
	a.ended(t, 1)
	call("carol")
	lay(t, base, synth.Job{ID: "second", Ranks: 1})
	a.ended(t, 2)
	page := a.page(t)
	want(t, page, 10_000, "mpitrace_job_calls_total", `"allreduce"`, `"first"`, `"1000"`)
	want(t, page, 10_000, "mpitrace_job_calls_total", `"allreduce"`, `"second"`, `"carol"`)
}

// FuzzOrigin: whatever an environment holds, labels are short and plain.
func FuzzOrigin(f *testing.F) {
	f.Add([]byte("SLURM_JOB_ID=17\x00SLURM_STEP_ID=3\x00"))
	f.Fuzz(func(t *testing.T, environ []byte) {
		o := originOf(environ)
		for _, text := range []string{o.scheduler, o.id, o.step} {
			if len(text) > 4*labelMost || notInLabel.MatchString(text) || strings.Contains(text, "\n") {
				t.Errorf("%q", text)
			}
		}
	})
}
