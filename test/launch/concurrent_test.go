package launch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConcurrent: a script starts a launcher whose rank 0 is late, so that rank
// 1 waits in MPI_Init, and meanwhile another one that comes to its end: nobody
// takes the segment of the rank that waits for one that is finished.
func TestConcurrent(t *testing.T) {
	for _, m := range mpis {
		t.Run(m.Name, func(t *testing.T) {
			dir := t.TempDir()
			program, segments := m.program(t), filepath.Join(dir, "segments")
			late := fmt.Sprintf(`'while [ ! -e %s/go ] && [ "${OMPI_COMM_WORLD_RANK-$PMI_RANK}" = 0 ]; do sleep 0.02; done; exec %s ok'`, dir, program)
			text := strings.Join([]string{
				"#!/bin/sh",
				strings.Join(m.launch(2, "/bin/sh", "-c", late), " ") + " &",
				"until waiting=$(ls " + segments + "/*/*.seg 2>/dev/null); do sleep 0.02; done",
				strings.Join(m.launch(1, program, "ok"), " "),
				"[ -e $waiting ] && echo the segment is there",
				": >" + dir + "/go",
				"wait",
			}, "\n")
			script := filepath.Join(dir, "job.sh")
			if err := os.WriteFile(script, []byte(text+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			got := run(t, dir, append(environment(), "MPITRACE_SEGMENT_DIR="+segments), traced(dir, []string{script})...)
			wantLine(t, got, "result in out (3 ranks, 1 node)")
			if want := "rank 0 of 1\nthe segment is there\nrank 0 of 2\nrank 1 of 2"; lines(got.stdout) != lines(want) {
				t.Errorf("output:\n%s\nwant:\n%s", got.stdout, want)
			}
			ranks := calls(t, filepath.Join(dir, "out"), "MPI_Sendrecv")
			for rank, n := range ranks {
				if n != exchanges {
					t.Errorf("world and rank %s: %d exchanges, want %d", rank, n, exchanges)
				}
			}
			if len(ranks) != 3 {
				t.Errorf("ranks by world: %v, want 3", ranks)
			}
		})
	}
}
