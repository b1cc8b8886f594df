package page

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/internal/symbols"
	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/segment"
)

// load writes a job to a directory and reads it for a page.
func load(t testing.TB, j synth.Job, o report.Options) *report.Report {
	t.Helper()
	dir := t.TempDir()
	if err := j.Write(dir); err != nil {
		t.Fatal(err)
	}
	o.Symbols = symbols.New(symbols.Options{})
	r, err := report.Load(dir, Needs(o))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// text is the page of a report.
func text(t testing.TB, r *report.Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, r, Options{Zone: time.UTC, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// uneven is a job whose ranks are up to 20 ms late at the reductions, which is
// more than the error of its clocks.
func uneven(ranks int) synth.Job {
	j := synth.Scale(ranks)
	j.ID = "uneven"
	j.Mutate = func(rank int, s *synth.Segment) *synth.Segment {
		for i := range s.Arrivals {
			a := &s.Arrivals[i]
			wave := math.Sin(float64(rank)*9/float64(ranks) + float64(i)/20)
			late := synth.Ticks(uint64(1e7*(1+wave))) - synth.Ticks(0)
			a.EnterTicks, a.WaitTicks, a.ExitTicks = a.EnterTicks+late, a.WaitTicks+late, a.ExitTicks+synth.Ticks(20e6)-synth.Ticks(0)
		}
		return s
	}
	return j
}

// killed is a job of which rank 1 was outside MPI when all were killed.
func killed() synth.Job {
	return synth.Job{ID: "killed", Ranks: 4, Mutate: func(rank int, s *synth.Segment) *synth.Segment {
		h := &s.Header
		h.State = segment.StateRunning
		h.FinalizeEnterTicks, h.FinalizeExitTicks, h.ExitTicks = 0, 0, 0
		h.LastTicks = synth.Ticks(50e9)
		if t := &s.Threads[0]; rank != 1 {
			t.Call, t.Address, t.EnterTicks = synth.ID("MPI_Allreduce"), synth.ModuleBase+0x13a0, synth.Ticks(49e9)
			t.Details, t.CommHandle, t.Peer, t.Tag = 1, 0x100, -1, -1
		}
		return s
	}}
}

// attack is a text that would run if it were not taken for text.
const attack = `</script><script>pwned=1</script><img src=x onerror=pwned=1>"'` + "`${pwned=1}<!--"

// hostile is a job all of whose names are attacks.
func hostile() synth.Job {
	j := synth.Scale(4)
	j.Mutate = func(_ int, s *synth.Segment) *synth.Segment {
		for _, field := range [][]byte{s.Header.Command[:], s.Header.Executable[:], s.Header.MPIVersion[:], s.Header.Node[:], s.Header.Launcher[:],
			s.Comms[3].Name[:], s.Types[1].Name[:]} {
			synth.SetText(field, attack)
		}
		synth.SetText(s.Modules[0].Path[:], "/"+strings.ReplaceAll(attack, "/", "")+"/")
		s.Phases = append(s.Phases, segment.RawPhase{Level: 3, Entered: 1})
		synth.SetText(s.Phases[1].Name[:], attack)
		return s
	}
	return j
}
