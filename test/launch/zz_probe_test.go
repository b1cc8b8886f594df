package launch_test

import (
	"testing"
	"time"
)

func TestZZProbe(t *testing.T) {
	s := newSlurm(t, oneNode(t))
	m := mpis[1]
	p := m.program(t)
	for i := range 10 {
		for name, opts := range map[string]string{"native": "", "traced": "", "noepilog": "--task-epilog=/bin/true", "nativeepilog": "--task-epilog=/bin/true"} {
			dir := t.TempDir()
			c := srun(m, "-n 4 --kill-on-bad-exit "+opts, p, "abort", "2")
			if name == "traced" || name == "noepilog" {
				c = traced(dir, c)
			}
			begin := time.Now()
			r := run(t, dir, s.env, c...)
			t.Logf("%d %s %d %v", i, name, r.status, time.Since(begin).Round(time.Millisecond))
		}
	}
}
