package report

import (
	"cmp"
	"slices"
)

const (
	groupsMax   = 512 // groups of ranks along an edge of a matrix or a raster
	matricesMax = 4   // worlds that get a matrix
)

// Axis is ranks in order, neighbours together in groups of one size.
type Axis struct {
	First int // the lowest rank
	Ranks int
	Group int // ranks of a group, at least 1; the last group may have fewer
}

// newAxis makes groups of the ranks from first to last, so few that they fit.
func newAxis(first, last int) Axis {
	ranks := last - first + 1
	return Axis{first, ranks, (ranks + groupsMax - 1) / groupsMax}
}

// Groups is how many groups there are.
func (a Axis) Groups() int { return (a.Ranks + a.Group - 1) / a.Group }

// Span is the ranks of a group, first and last.
func (a Axis) Span(group int) (first, last int) {
	first = a.First + group*a.Group
	return first, min(first+a.Group, a.First+a.Ranks) - 1
}

// group is the group of a rank; false if it is not on the axis.
func (a Axis) group(rank int) (int, bool) {
	if rank < a.First || rank >= a.First+a.Ranks {
		return 0, false
	}
	return (rank - a.First) / a.Group, true
}

// Matrix is the point-to-point messages of one world, from groups of ranks to
// groups of ranks, as the senders counted them.
type Matrix struct {
	World    string
	From, To Axis
	// By group of senders, then of receivers: From.Groups() × To.Groups().
	Messages, Bytes []uint64
	Elsewhere       Traffic // sent to ranks of other worlds and to those beyond the tables of peers
}

// addMatrix takes over what a rank has sent. Memory does not grow with the
// number of ranks.
func (b *builder) addMatrix(rank *Rank, worldSize int32, peers map[int32]*Traffic) {
	if !b.options.Matrix {
		return
	}
	m, ok := b.matrices[rank.world]
	if !ok {
		if worldSize < 1 || len(b.matrices) == matricesMax {
			return
		}
		m = newMatrix(rank.World, min(int(worldSize), maxWorld), b.options.Ranks)
		b.matrices[rank.world] = m
	}
	from, ok := m.From.group(rank.Rank)
	if !ok {
		return
	}
	for peer, t := range peers {
		if to, ok := m.To.group(int(peer)); ok {
			m.Messages[from*m.To.Groups()+to] += t.SentMessages
			m.Bytes[from*m.To.Groups()+to] += t.SentBytes
			continue
		}
		m.Elsewhere.SentMessages += t.SentMessages
		m.Elsewhere.SentBytes += t.SentBytes
	}
}

// newMatrix is an empty matrix; senders are those that the user asked for.
func newMatrix(world string, size int, asked Ranges) *Matrix {
	first, last := asked.within(size)
	m := &Matrix{World: world, From: newAxis(first, last), To: newAxis(0, size-1)}
	cells := m.From.Groups() * m.To.Groups()
	m.Messages, m.Bytes = make([]uint64, cells), make([]uint64, cells)
	return m
}

// within is the least and the greatest rank of the set that a world has; all
// of the world if the set has none of it.
func (r Ranges) within(size int) (first, last int) {
	first, last = size, -1
	for _, s := range r {
		if s.first < size {
			first, last = min(first, s.first), max(last, min(s.last, size-1))
		}
	}
	if last < 0 {
		return 0, size - 1
	}
	return first, last
}

// finishMatrices lists the matrices, that of the largest world first.
func (b *builder) finishMatrices() {
	for world := range b.report.Job.Worlds {
		if m := b.matrices[world]; m != nil {
			b.report.Matrices = append(b.report.Matrices, m)
		}
	}
	slices.SortStableFunc(b.report.Matrices, func(x, y *Matrix) int { return -cmp.Compare(x.To.Ranks, y.To.Ranks) })
}
