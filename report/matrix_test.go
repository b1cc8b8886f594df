package report

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mpitrace/mpitrace/internal/synth"
	"github.com/mpitrace/mpitrace/segment"
)

// dumbCell sums what the ranks of one group sent to those of another.
func dumbCell(peers [][]segment.RawPeer, from, to [2]int) (messages, bytes uint64) {
	for rank := from[0]; rank <= from[1]; rank++ {
		for _, p := range peers[rank] {
			if int(p.Rank) >= to[0] && int(p.Rank) <= to[1] {
				messages, bytes = messages+p.SentMessages, bytes+p.SentBytes
			}
		}
	}
	return messages, bytes
}

// TestMatrix compares cells with sums over the segments, whole and for a part
// of the ranks.
func TestMatrix(t *testing.T) {
	for _, test := range []struct {
		ranks    int
		asked    string
		from, to Axis
	}{
		{6, "", Axis{0, 6, 1}, Axis{0, 6, 1}},
		{512, "", Axis{0, 512, 1}, Axis{0, 512, 1}},
		{1300, "", Axis{0, 1300, 3}, Axis{0, 1300, 3}},
		{1300, "3,700-1298", Axis{3, 1296, 3}, Axis{0, 1300, 3}},
		{1300, "40-41", Axis{40, 2, 1}, Axis{0, 1300, 3}},
		{6, "2-9", Axis{2, 4, 1}, Axis{0, 6, 1}},
	} {
		t.Run(fmt.Sprint(test.ranks, " ", test.asked), func(t *testing.T) {
			j := synth.Job{ID: "m", Ranks: test.ranks, ExtraPeers: 20}
			asked, err := ParseRanges(test.asked)
			if err != nil {
				t.Fatal(err)
			}
			r := load(t, j, Options{Matrix: true, Ranks: asked})
			if len(r.Matrices) != 1 || r.Matrices[0].From != test.from || r.Matrices[0].To != test.to {
				t.Fatalf("matrices %+v", r.Matrices)
			}
			m := r.Matrices[0]
			peers := make([][]segment.RawPeer, test.ranks)
			for rank := range peers {
				if asked.Has(rank) {
					peers[rank] = j.Segment(rank).Peers
				}
			}
			var messages, bytes uint64
			for from := range m.From.Groups() {
				for to := range m.To.Groups() {
					cell := from*m.To.Groups() + to
					messages, bytes = messages+m.Messages[cell], bytes+m.Bytes[cell]
					a, b := m.From.Span(from)
					c, d := m.To.Span(to)
					if wantMessages, wantBytes := dumbCell(peers, [2]int{a, b}, [2]int{c, d}); m.Messages[cell] != wantMessages || m.Bytes[cell] != wantBytes {
						t.Fatalf("cell %d, %d: %d messages, %d bytes, want %d and %d", from, to, m.Messages[cell], m.Bytes[cell], wantMessages, wantBytes)
					}
				}
			}
			if all := r.Job.Messages; messages != all.SentMessages || bytes != all.SentBytes || m.Elsewhere != (Traffic{}) {
				t.Errorf("in all %d messages, %d bytes, elsewhere %+v, want %+v", messages, bytes, m.Elsewhere, all)
			}
		})
	}
}

// TestMatrixStrangers: what goes to ranks that no axis has is counted apart,
// and a world whose size cannot be true takes no more memory.
func TestMatrixStrangers(t *testing.T) {
	j := synth.Job{ID: "strange", Ranks: 4, Mutate: func(rank int, s *synth.Segment) *synth.Segment {
		s.Peers = []segment.RawPeer{{Rank: -1, SentMessages: 1, SentBytes: 10}, {Rank: -2, SentMessages: 1, SentBytes: 20}, {Rank: 4000, SentMessages: 1, SentBytes: 30}}
		if rank == 3 {
			s.Header.World, s.Header.WorldSize = [64]byte{'z'}, 1<<31-1
		}
		return s
	}}
	r := load(t, j, Options{Matrix: true})
	if len(r.Matrices) != 2 {
		t.Fatalf("%d matrices, want 2", len(r.Matrices))
	}
	huge, small := r.Matrices[0], r.Matrices[1]
	if len(huge.Messages) > groupsMax*groupsMax || huge.To.Ranks > maxWorld {
		t.Errorf("%d cells of %d ranks", len(huge.Messages), huge.To.Ranks)
	}
	if want := (Traffic{SentMessages: 9, SentBytes: 180}); small.Elsewhere != want || slices.Max(small.Messages) != 0 {
		t.Errorf("elsewhere %+v, want %+v", small.Elsewhere, want)
	}
	if ordinary := load(t, j, Options{}); ordinary.Matrices != nil || ordinary.Rasters != nil {
		t.Error("an ordinary report has maps")
	}
}
