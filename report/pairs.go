package report

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
)

// pairsKept is how many of the heaviest pairs a report holds by itself.
const pairsKept = 64

// pairHeap keeps the heaviest pairs, the lightest of them on top.
type pairHeap []Pair

func comparePairs(a, b Pair) int {
	return cmp.Or(cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Messages, b.Messages),
		-strings.Compare(a.World, b.World), -cmp.Compare(a.From, b.From), -cmp.Compare(a.To, b.To))
}

func (p pairHeap) Len() int           { return len(p) }
func (p pairHeap) Less(i, j int) bool { return comparePairs(p[i], p[j]) < 0 }
func (p pairHeap) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }

// Push is for container/heap only.
func (p *pairHeap) Push(x any) { *p = append(*p, x.(Pair)) }

// Pop is for container/heap only.
func (p *pairHeap) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}

// add keeps the pair if it is among the heaviest.
func (p *pairHeap) add(kept int, pair Pair) {
	if len(*p) < max(kept, pairsKept) {
		heap.Push(p, pair)
		return
	}
	if comparePairs((*p)[0], pair) < 0 {
		(*p)[0] = pair
		heap.Fix(p, 0)
	}
}

// sorted is the pairs, heaviest first.
func (p pairHeap) sorted() []Pair {
	out := append([]Pair{}, p...)
	slices.SortFunc(out, func(a, b Pair) int { return -comparePairs(a, b) })
	return out
}

// sortBy sorts in place and keeps the order of equals.
func sortBy[T any](list []T, compare func(a, b T) int) { slices.SortStableFunc(list, compare) }
